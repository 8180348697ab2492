package seccomp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	setModeFilter = 1
	flagTSync     = 1
	// notSupported is ENOTSUPP, the kernel's answer if compiling a filter would exceed
	// net.core.bpf_jit_limit.
	notSupported = unix.Errno(524)
)

// Install puts the filter on every thread of this process, and so on every process that it starts. It does
// not set no_new_privs: the caller has CAP_SYS_ADMIN in its user namespace, or has set it. The filter also
// allows these calls.
func Install(also ...int) error {
	program := Program(also...)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, flagTSync, uintptr(unsafe.Pointer(&prog)))
	if errno == notSupported {
		return errors.New("the kernel has no memory for another filter: raise the sysctl net.core.bpf_jit_limit, or end the program that uses it up")
	}
	if errno != 0 {
		return errno
	}
	if thread != 0 {
		return fmt.Errorf("thread %d has a different filter", thread)
	}
	return nil
}
