package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody owns no file on any machine.
const nobody = 65534

// dropRights makes the process an ordinary one for good: no root, no way to regain it, no core file that
// would contain a credential, and no other process of the same user can read its memory.
func dropRights() error {
	if syscall.Geteuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
			return err
		}
		if err := syscall.Setresuid(nobody, nobody, nobody); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
