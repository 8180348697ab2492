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

// leftToC are the signals that Go never handles, because C libraries use them internally.
var leftToC = []uintptr{32, 34}

// TakeSignals handles every signal that can be handled and returns a channel that ticks when a child may have
// ended.
//
// A Go program installs handlers at start, so unlike a C program as PID 1 it dies of a SIGTERM, which any
// root process of the sandbox may send. SIGURG and signal 33 stay with the Go runtime, which uses them and
// ignores those that others send.
func TakeSignals() (<-chan os.Signal, error) {
	var others []os.Signal
	for n := syscall.Signal(1); n < 65; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGCHLD, 32, 33, 34:
		default:
			others = append(others, n)
		}
	}
	// Nobody reads this channel: a signal that arrives is dropped.
	signal.Notify(make(chan os.Signal), others...)
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

// absorb gives the signals in leftToC a handler that does nothing. Payloads would inherit it if they were
// ignored; a handler ends with execve. The rest of the action (stack, return stub, mask) is what Go has for
// another signal.
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
	for _, number := range leftToC {
		if errno == 0 {
			_, _, errno = unix.RawSyscall6(unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0)
		}
	}
	if errno != 0 {
		return fmt.Errorf("handle signals: %w", errno)
	}
	return nil
}
