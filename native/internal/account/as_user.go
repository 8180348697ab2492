package account

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As runs work on a separate thread whose file system identity is the user's, so that the kernel checks every
// path as it does for the user's own programs. The thread ends with the work, so a changed identity never
// returns to the pool.
//
// SECURITY: only the file system uid and gid change. The real and effective ids stay root's, so the user's
// processes can neither signal nor trace the thread.
func (u *User) As(work func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := u.assume(); err != nil {
			done <- err
			return
		}
		done <- work()
	}()
	return <-done
}

func (u *User) assume() error {
	groups := make([]uint32, 0, len(u.Groups)+1)
	groups = append(groups, uint32(u.GID))
	for _, gid := range u.Groups {
		groups = append(groups, uint32(gid))
	}
	if unix.Geteuid() != 0 {
		// Without root there is only one identity. Tests outside a sandbox may run so.
		if unix.Geteuid() == u.UID {
			return nil
		}
		return unix.EPERM
	}
	// The raw call changes only this thread; the one of the standard library changes all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETFSGID, ^uintptr(0), 0, 0); errno == unix.ENOSYS {
		return u.assumeEffective()
	}
	if err := setID(unix.SYS_SETFSGID, u.GID); err != nil {
		return err
	}
	// When the thread leaves uid 0, the kernel removes the file system capabilities from the effective set.
	return setID(unix.SYS_SETFSUID, u.UID)
}

// assumeEffective is for gVisor, which has no file system ids. SECURITY: the real and the saved ids stay
// root's, and those decide who may signal the thread; podd is not dumpable, so that nothing inside can trace
// it.
func (u *User) assumeEffective() error {
	keep := ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(u.GID), keep); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(u.UID), keep); errno != 0 {
		return errno
	}
	return nil
}

// setID sets the id and then reads it, because these two calls report no failure.
func setID(call uintptr, id int) error {
	unix.RawSyscall(call, uintptr(id), 0, 0)
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); int(now) != id {
		return unix.EPERM
	}
	return nil
}
