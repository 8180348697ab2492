package process

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/guard"
)

// Launcher is one thread from which payloads are forked. A child inherits the thread's bounding set,
// no_new_privs, filter and control group. So the restrictions of a payload hold before its first instruction,
// without a helper program. The thread runs as long as podd.
type Launcher struct {
	jobs chan func()
}

// NewLauncher starts a thread and prepares it. Go uses neither it nor a thread cloned from it for anything
// else.
func NewLauncher(prepare func() error) (*Launcher, error) {
	l := &Launcher{jobs: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := prepare()
		ready <- err
		if err != nil {
			return
		}
		for job := range l.jobs {
			job()
		}
	}()
	return l, <-ready
}

// do runs f on the thread and waits for it.
func (l *Launcher) do(f func()) {
	done := make(chan struct{})
	l.jobs <- func() {
		f()
		close(done)
	}
	<-done
}

// Prepare runs f on the thread, before it launches anything.
func (l *Launcher) Prepare(f func() error) (err error) {
	l.do(func() { err = f() })
	return err
}

// Launchers are the two kinds of threads.
type Launchers struct {
	Strict, Sudo *Launcher
}

// NewLaunchers prepares both threads and closes groupFD. A negative groupFD means that there is no payload
// group. guarded is false only outside a sandbox.
func NewLaunchers(groupFD int, guarded bool) (Launchers, error) {
	if groupFD >= 0 {
		defer unix.Close(groupFD)
	}
	sudo, err := NewLauncher(func() error { return joinGroup(groupFD) })
	if err != nil {
		return Launchers{}, err
	}
	strict, err := NewLauncher(func() error {
		if err := joinGroup(groupFD); err != nil || !guarded {
			return err
		}
		return guard.StripThread()
	})
	return Launchers{Strict: strict, Sudo: sudo}, err
}

// joinGroup moves only the calling thread into the payload group, where its children start.
func joinGroup(fd int) error {
	if fd < 0 {
		return nil
	}
	if _, err := unix.Pwrite(fd, []byte("0"), 0); err != nil {
		return fmt.Errorf("join the payload group: %w", err)
	}
	return nil
}
