package guard

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queueLimit is how many signals may be pending for podd, and by inheritance for a payload, which may raise
// it again.
const queueLimit = 1024

// handledByGo are the signals that the processor may raise too, which is a defect of podd, and SIGPIPE, which
// Go raises itself. Go drops them if another process sends them.
var handledByGo = []os.Signal{
	syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGPIPE,
}

// isAbsorbed reports whether a signal gets a handler that does nothing. SIGURG and signal 33 stay with the Go
// runtime, which uses them and ignores those that others send.
func isAbsorbed(number syscall.Signal) bool {
	switch number {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGCHLD, 33:
		return false
	}
	for _, one := range handledByGo {
		if one == number {
			return false
		}
	}
	return true
}

// TakeSignals handles every signal that can be handled and returns a channel that ticks when a child may have
// ended.
//
// A Go program installs handlers at start, so unlike a C program as PID 1 it dies of a SIGTERM, which any
// root process of the sandbox may send. Only few signals are left to Go: each that it handles costs a start
// some thirty microseconds.
func TakeSignals() (<-chan os.Signal, error) {
	// This channel has no reader: a signal that arrives is dropped.
	signal.Notify(make(chan os.Signal), handledByGo...)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	if err := boundQueue(); err != nil {
		return nil, err
	}
	return children, absorb()
}

// boundQueue lowers the limit on pending signals. Above it podd loses nothing that it needs: a signal from
// kill still arrives, without its sender's name, and only once however often it was sent.
//
// SECURITY: attack case PR-06. The kernel walks the whole queue of real-time signals to take one out. At the
// usual limit of about a hundred thousand, a flood of three seconds would keep podd from answering for a
// minute.
func boundQueue() error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &limit)
	if err == nil && limit.Cur > queueLimit {
		limit.Cur = queueLimit
		err = unix.Setrlimit(unix.RLIMIT_SIGPENDING, &limit)
	}
	if err != nil {
		return fmt.Errorf("bound the queue of signals: %w", err)
	}
	return nil
}

// Both are in noop.s. The linker needs to know that noop takes no arguments; nothing in Go calls it.
var noopAddress uintptr

func noop()

// absorb installs the handlers that do nothing. Payloads would inherit it if the signals were ignored; a
// handler ends with execve. The rest of the action (stack, return stub, mask) is what Go has for SIGUSR1.
//
// SECURITY: the kernel spares PID 1 a signal without a handler only if its first thread does not block it at
// that moment, and Go blocks all signals while it handles one. A flood of signals from inside would get
// through.
func absorb() error {
	// struct sigaction begins with the handler and is not longer than this on the supported architectures.
	var action [8]uint64
	const maskSize = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGUSR1), 0, uintptr(unsafe.Pointer(&action)), maskSize, 0, 0)
	action[0] = uint64(noopAddress)
	for number := syscall.Signal(1); number < 65 && errno == 0; number++ {
		if isAbsorbed(number) {
			_, _, errno = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0)
		}
	}
	if errno != 0 {
		return fmt.Errorf("handle signals: %w", errno)
	}
	return nil
}
