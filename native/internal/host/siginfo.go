package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// cldExited is CLD_EXITED: the child called exit; any other code is a signal.
const cldExited = 1

// childInfo is siginfo_t as waitid fills it on 64-bit Linux.
type childInfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
}

func siginfoStatus(info *unix.Siginfo) int {
	return int((*childInfo)(unsafe.Pointer(info)).status)
}
