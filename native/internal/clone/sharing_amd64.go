package clone

import "syscall"

const canShareMemory = true

// cloneSharing makes a process that runs child(p) from this stack address down, in the caller's memory. It
// returns in the caller only.
//
//go:noescape
func cloneSharing(flags uintptr, stack *byte, p *plan) (pid uintptr, errno syscall.Errno)
