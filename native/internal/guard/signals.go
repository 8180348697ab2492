package guard

import (
	"os"
	"os/signal"
	"syscall"
)

// TakeSignals handles every signal that can be handled and returns a channel that ticks when a child may have died.
//
// A Go program installs handlers at start, so unlike a C program as PID 1 it dies of a SIGTERM that any root process of
// the sandbox may send. SIGURG stays with the Go runtime, which uses it to interrupt goroutines and ignores strays.
func TakeSignals() <-chan os.Signal {
	var others []os.Signal
	for n := syscall.Signal(1); n < 65; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGCHLD, 32, 33:
		default:
			others = append(others, n)
		}
	}
	// A channel nobody reads: a signal that arrives is dropped.
	signal.Notify(make(chan os.Signal), others...)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	return children
}
