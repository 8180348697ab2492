package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// Calls that only this architecture has.
var (
	archAllowed = []int{}
	archDenied  = []int{}
)
