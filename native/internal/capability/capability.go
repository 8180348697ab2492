// Package capability has the capabilities of podd and of root in a sandbox. It has few dependencies, because
// package early uses it.
package capability

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Podd is what podd itself needs: to become a payload's user, to signal it, and to access files for any user
// and change their owner.
const Podd uint64 = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL |
	1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

// Sudo is what root inside may have if the environment says sudo.
const Sudo uint64 = Podd | 1<<unix.CAP_FSETID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_NET_BIND_SERVICE

// GVisorRenewal is what podd keeps in gVisor, to set up the network of gVisor's own stack and the host name
// after it was restored. It is permitted and not effective, it means nothing outside, and no payload can get
// it: it is not in the bounding set.
const GVisorRenewal uint64 = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN

// Setup is what podd has besides while it sets up its container and its network, and executes nothing. It is
// inheritable and not in the bounding set: when podd has given it up, nothing that it starts can gain it.
const Setup uint64 = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_RESOURCE

// All is for a container engine inside, where the kernel is the sandbox's own.
const All = ^uint64(0)

// count is more than the kernel has capabilities.
const count = 64

// LimitBoundingSet removes all others from the bounding set of every thread. A capability that is not in it
// cannot be gained by executing a program; capabilities that the process has stay. Go has to stop all threads
// for each removal, so a process calls it as early as it can, while it has few of them.
func LimitBoundingSet(to uint64) error {
	for c := 0; c < count; c++ {
		if to&(1<<c) != 0 || !isInBoundingSet(c) {
			continue
		}
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); errno != 0 {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, errno)
		}
	}
	return nil
}

// BoundingSet returns the bounding set of the calling thread.
func BoundingSet() (set uint64) {
	for c := 0; c < count; c++ {
		if isInBoundingSet(c) {
			set |= 1 << c
		}
	}
	return set
}

// isInBoundingSet is false also for a capability that this kernel does not have.
func isInBoundingSet(c int) bool {
	isThere, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
	return err == nil && isThere == 1
}
