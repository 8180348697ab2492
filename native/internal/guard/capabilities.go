package guard

import (
	"fmt"

	"agentpod/native/internal/capability"

	"golang.org/x/sys/unix"
)

// StripThread leaves the calling thread, and everything it starts, with no bounding set and no way to gain
// privileges. The caller has locked the thread.
//
// SECURITY: attack cases PR-01 and PR-02; a root payload ends with no capability because execve takes root's
// from the bounding set.
func StripThread() error {
	for c := 0; c < 64; c++ {
		if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); errno != 0 && errno != unix.EINVAL {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, errno)
		}
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	return nil
}

// DropCapabilities reduces the capabilities of every thread of podd. It comes last, because the other guards
// need them. Those to keep stay permitted, for WithCapabilities.
func DropCapabilities(keep uint64) error {
	if err := capability.LimitBoundingSet(capability.Sudo); err != nil {
		return err
	}
	return SetCapabilities(capability.Podd, capability.Podd|keep)
}

// SetCapabilities leaves every thread of the process only these capabilities.
func SetCapabilities(effective, permitted uint64) error {
	if err := capset(allThreads, effective, permitted); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}
