//go:build !amd64

package clone

import "syscall"

const canShareMemory = false

func cloneSharing(uintptr, *byte, *plan) (uintptr, syscall.Errno) { return 0, syscall.ENOSYS }
