package guard

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"agentpod/native/internal/capability"

	"golang.org/x/sys/unix"
)

// becoming are the capabilities needed to start a payload as its user.
const becoming = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID

// CanStrip reports whether podd has what StripThread, DropCapabilities and the seccomp filter need, as it
// does when podhost started it. A container engine grants less; then LimitPrivileges takes their place.
func CanStrip() (bool, error) {
	const needed = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETPCAP
	effective, _, err := capget()
	return effective&needed == needed, err
}

// LimitPrivileges sets no_new_privs on every thread and drops the capabilities that podd neither needs nor
// grants. From then on execve gives nobody a capability that podd does not have. So the bounding set, which
// takes CAP_SETPCAP to change, has no effect.
//
// SECURITY: attack cases PR-01 and PR-02, in a container that a container engine made.
func LimitPrivileges() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	_, permitted, err := capget()
	if err == nil {
		err = capset(allThreads, permitted&capability.Podd, permitted&capability.Sudo)
	}
	if err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}

// LimitThread leaves the calling thread only the capabilities to become a payload's user. A payload of an
// ordinary user ends with no capability. A payload of root keeps these two, with which it can become any user
// of its own container. Call it after LimitPrivileges, on a locked thread.
func LimitThread() error {
	_, permitted, err := capget()
	if err == nil {
		err = capset(thisThread, permitted&becoming, permitted&becoming)
	}
	if err != nil {
		return fmt.Errorf("set the capabilities of a launcher: %w", err)
	}
	return nil
}

// WithCapabilities does work with more of its permitted capabilities in effect, on one thread.
func WithCapabilities(more uint64, work func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	effective, permitted, err := capget()
	if err == nil {
		err = capset(thisThread, effective|more, permitted)
	}
	if err != nil {
		return fmt.Errorf("raise capabilities: %w", err)
	}
	defer capset(thisThread, effective, permitted)
	return work()
}

type setter func(trap, a1, a2, a3 uintptr) (r1, r2 uintptr, errno syscall.Errno)

var (
	allThreads setter = syscall.AllThreadsSyscall
	thisThread setter = syscall.RawSyscall
)

// capset leaves nothing inheritable, and so nothing ambient.
func capset(call setter, effective, permitted uint64) error {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	sets := &[2]unix.CapUserData{
		{Effective: uint32(effective), Permitted: uint32(permitted)},
		{Effective: uint32(effective >> 32), Permitted: uint32(permitted >> 32)},
	}
	_, _, errno := call(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(sets)), 0)
	runtime.KeepAlive(header)
	runtime.KeepAlive(sets)
	if errno != 0 {
		return errno
	}
	return nil
}

func capget() (effective, permitted uint64, err error) {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err = unix.Capget(header, &sets[0])
	return uint64(sets[1].Effective)<<32 | uint64(sets[0].Effective), uint64(sets[1].Permitted)<<32 | uint64(sets[0].Permitted), err
}
