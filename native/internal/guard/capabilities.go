package guard

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// kept is what podd itself needs: to become a payload's user, to signal it, and to access files for any user
// and change their owner.
const kept = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL |
	1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

// granted is what root inside may have if the environment says sudo.
const granted = kept | 1<<unix.CAP_FSETID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_NET_BIND_SERVICE

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
// need them.
func DropCapabilities() error {
	for c := 0; c < 64; c++ {
		if granted&(1<<c) != 0 {
			continue
		}
		// EINVAL: this kernel is too old to have the capability.
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); errno != 0 && errno != unix.EINVAL {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, errno)
		}
	}
	if err := capset(allThreads, kept, kept); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}
