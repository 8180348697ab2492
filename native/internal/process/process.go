// Package process starts payloads, and keeps their output, terminals and exit codes.
package process

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/descriptor"
)

// Config is envd's ProcessConfig.
type Config struct {
	Cmd  string            `json:"cmd,omitempty"`
	Args []string          `json:"args,omitempty"`
	Envs map[string]string `json:"envs,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
}

// Exit is how a process ended. Code is -1 after a signal, as in envd.
type Exit struct {
	Code      int
	Signal    string
	OOMKilled bool
	At        time.Time
}

// Process is a payload that podd started. It runs, or has ended and is still remembered.
type Process struct {
	Pid     int
	Tag     string
	Config  Config
	Started time.Time
	Output  *Journal

	reaper *Reaper
	child  *child
	oom    *OOMCounter

	writing  chan struct{} // holds a token while somebody writes input
	terminal bool

	mu     sync.Mutex
	input  *os.File // the write end of stdin, or the terminal's master; nil when there is none
	exit   *Exit
	taken  int64 // bytes of input written to the process, whether it has read them or not
	killed bool  // podd itself sent SIGKILL
	done   chan struct{}
}

// Exit is nil while the process runs.
func (p *Process) Exit() *Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Done is closed when the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the process group; SIGKILL goes to the whole tree.
func (p *Process) Signal(signal syscall.Signal) error {
	err := p.reaper.whileAlive(p.child, func() error {
		if signal != unix.SIGKILL {
			return unix.Kill(-p.Pid, signal)
		}
		p.mu.Lock()
		p.killed = true
		p.mu.Unlock()
		killTree(p.Pid)
		return nil
	})
	if err == unix.ESRCH {
		return connect.Errorf(connect.NotFound, "process %d has ended", p.Pid)
	}
	return err
}

// Resize changes the terminal's size.
func (p *Process) Resize(size Size) error {
	input := p.openInput()
	if !p.terminal || input == nil {
		return connect.Errorf(connect.FailedPrecondition, "process %d has no terminal", p.Pid)
	}
	return descriptor.Control(input, func(fd int) error { return resize(fd, size) })
}

func (p *Process) openInput() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.input
}

// Taken is how many bytes of input the process was given so far.
func (p *Process) Taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Write sends input to the terminal or to stdin. It waits while the process does not read, until ctx ends.
func (p *Process) Write(ctx context.Context, data []byte, terminal bool) error {
	if terminal != p.terminal {
		return connect.Errorf(connect.FailedPrecondition, "process %d takes its input in a different way (terminal: %t)", p.Pid, p.terminal)
	}
	done, err := p.beginWrite(ctx)
	if err != nil {
		return err
	}
	defer done()
	return p.write(ctx, data)
}

// WriteFrom sends input with its offset in all the input. It skips bytes that the process was given already,
// so a caller that does not know whether an earlier call arrived can repeat it.
func (p *Process) WriteFrom(ctx context.Context, offset int64, data []byte) error {
	if p.terminal {
		return connect.Errorf(connect.FailedPrecondition, "process %d has a terminal, which does not accept input by offset", p.Pid)
	}
	done, err := p.beginWrite(ctx)
	if err != nil {
		return err
	}
	defer done()
	taken := p.Taken()
	if offset > taken {
		return connect.Errorf(connect.FailedPrecondition, "process %d has received %d bytes of input, but these begin at %d", p.Pid, taken, offset)
	}
	if skip := taken - offset; skip < int64(len(data)) {
		return p.write(ctx, data[skip:])
	}
	return nil
}

// beginWrite waits for its turn: writers do not overlap.
func (p *Process) beginWrite(ctx context.Context) (done func(), err error) {
	select {
	case p.writing <- struct{}{}:
		return func() { <-p.writing }, nil
	case <-ctx.Done():
		return nil, connect.Errorf(connect.Canceled, "process %d did not read its earlier input", p.Pid)
	}
}

func (p *Process) write(ctx context.Context, data []byte) error {
	input := p.openInput()
	if input == nil {
		return connect.Errorf(connect.FailedPrecondition, "process %d has no stdin, or it is closed", p.Pid)
	}
	input.SetWriteDeadline(time.Time{})
	finished, watcher := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case <-ctx.Done():
			input.SetWriteDeadline(time.Unix(1, 0))
		case <-finished:
		}
	}()
	n, err := input.Write(data)
	p.mu.Lock()
	p.taken += int64(n)
	p.mu.Unlock()
	close(finished)
	<-watcher
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return connect.Errorf(connect.Canceled, "process %d did not read its input", p.Pid)
	}
	return connect.Errorf(connect.FailedPrecondition, "process %d does not read its input: %v", p.Pid, err)
}

// CloseInput ends stdin, and a write that waits. A terminal has no end of input to close; there it is a
// character.
func (p *Process) CloseInput() error {
	if p.terminal {
		return connect.Errorf(connect.FailedPrecondition, "process %d has a terminal; send it ^D", p.Pid)
	}
	p.dropInput()
	return nil
}

func (p *Process) dropInput() {
	p.mu.Lock()
	input := p.input
	p.input = nil
	p.mu.Unlock()
	if input != nil {
		input.Close()
	}
}

// watch waits for the end, drains the output, and publishes the exit.
func (p *Process) watch(oomBefore int64, pumps []*pump) {
	exit := exitOf(<-p.child.died)
	exit.At = time.Now()
	p.mu.Lock()
	exit.OOMKilled = exit.Signal == "SIGKILL" && !p.killed && p.oom.read() > oomBefore
	p.mu.Unlock()
	drain(pumps)
	p.Output.Close()
	p.mu.Lock()
	p.exit = &exit
	p.mu.Unlock()
	close(p.done)
	p.dropInput()
}

func exitOf(status unix.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: unix.SignalName(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}
