package processes

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// cldExited is CLD_EXITED: the child called exit. Any other code means that a signal ended it.
const cldExited = 1

// childInfo is siginfo_t as waitid fills it on 64-bit Linux. x/sys leaves this part untyped.
type childInfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
}

func childInfoOf(info *unix.Siginfo) *childInfo { return (*childInfo)(unsafe.Pointer(info)) }
