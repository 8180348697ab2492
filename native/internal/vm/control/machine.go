package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errEnded is why a program ended that nothing was wrong with.
var errEnded = errors.New("the machine was switched off")

// A Process is the program that runs a machine.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	// failure is why the program ended, after done is closed.
	failure error
	ending  sync.Once

	mu sync.Mutex
	// cause is why the driver ended it.
	cause error
}

// Start starts a program. title is its name in errors; after is called when it has ended,
// before Done is closed.
func Start(cmd *exec.Cmd, title string, after func()) (*Process, error) {
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", title, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errEnded
		}
		p.mu.Lock()
		if p.cause != nil {
			err = fmt.Errorf("%w (%v)", p.cause, err)
		}
		p.mu.Unlock()
		p.failure = fmt.Errorf("%s: %w", title, err)
		after()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended. Err then says why.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil as long as the program runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.failure
	default:
		return nil
	}
}

// End ends the program and returns when it has ended.
func (p *Process) End() {
	p.ending.Do(func() { p.cmd.Process.Kill() })
	<-p.done
}

// Fail ends the program because something is wrong with the machine.
func (p *Process) Fail(cause error) {
	p.mu.Lock()
	p.cause = cause
	p.mu.Unlock()
	p.End()
}

// Channels are the byte streams of a machine.
type Channels struct {
	// dial connects to the program's socket for its vsock device.
	dial   func(ctx context.Context) (net.Conn, error)
	output net.Conn

	mu      sync.Mutex
	link    net.Conn
	isEnded bool
}

// NewChannels returns those of a machine whose program logs to output.
func NewChannels(output net.Conn, dial func(ctx context.Context) (net.Conn, error)) *Channels {
	return &Channels{dial: dial, output: output}
}

// Output is what the machine and the program log.
func (c *Channels) Output() net.Conn { return c.output }

// Close ends the streams.
func (c *Channels) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isEnded = true
	c.output.Close()
	if c.link != nil {
		c.link.Close()
	}
}

// EndLink ends the connection to the machine, if there is one.
func (c *Channels) EndLink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link.Close()
		c.link = nil
	}
}

const (
	// linkPause is how long to wait before a machine that does not listen yet is tried again.
	linkPause = 5 * time.Millisecond
	// greetTimeout bounds the answer to one try.
	greetTimeout = 5 * time.Second
	// maxGreeting bounds the line that answers CONNECT.
	maxGreeting = 32
)

var errGreeting = errors.New("the program answers CONNECT with")

var greeting = regexp.MustCompile(`\AOK [0-9]{1,10}\n\z`)

// Connect begins a connection to a port inside, and ends the one before. It tries until the machine listens.
func (c *Channels) Connect(port uint32, deadline time.Time) (net.Conn, error) {
	c.EndLink()
	for {
		conn, err := c.try(port, deadline)
		c.mu.Lock()
		switch {
		case c.isEnded:
			if conn != nil {
				conn.Close()
			}
			conn, err = nil, net.ErrClosed
		case err == nil:
			c.link = conn
		}
		isEnded := c.isEnded
		c.mu.Unlock()
		if err == nil {
			return conn, nil
		}
		if isEnded || errors.Is(err, errGreeting) || time.Now().Add(linkPause).After(deadline) {
			return nil, fmt.Errorf("the machine does not listen: %w", err)
		}
		time.Sleep(linkPause)
	}
}

// try asks once. The program closes the connection if nothing listens inside.
func (c *Channels) try(port uint32, deadline time.Time) (net.Conn, error) {
	if limit := time.Now().Add(greetTimeout); deadline.After(limit) {
		deadline = limit
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(deadline)
	if _, err = fmt.Fprintf(conn, "CONNECT %d\n", port); err == nil {
		err = readGreeting(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return conn, nil
}

// readGreeting reads no byte too many: the next one is of the machine.
func readGreeting(conn net.Conn) error {
	var line []byte
	for one := make([]byte, 1); len(line) < maxGreeting; {
		if _, err := conn.Read(one); err != nil {
			return err
		}
		line = append(line, one[0])
		if one[0] == '\n' {
			break
		}
	}
	if !greeting.Match(line) {
		return fmt.Errorf("%w %.40q", errGreeting, line)
	}
	return nil
}

// Pair returns two connected sockets: a connection for the driver, and a file for the program to inherit.
func Pair() (net.Conn, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "socket"), os.NewFile(uintptr(ends[1]), "socket")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// Attributes are those of a process in namespaces of its own.
func Attributes(namespaces uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
}
