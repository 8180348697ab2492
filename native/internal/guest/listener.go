package guest

import (
	"net"
	"os"
	"sync/atomic"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

const maxConnections = 1024

// Listen makes a listener of an inherited descriptor. If guarded, it serves only peers outside the sandbox.
func Listen(fd int, guarded bool) (net.Listener, error) {
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	inner, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: inner, guarded: guarded}, nil
}

// Bound limits the number of open connections of a listener whose peers are already authenticated.
func Bound(inner net.Listener) net.Listener { return &listener{Listener: inner} }

type listener struct {
	net.Listener
	guarded bool
	open    atomic.Int64
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Load() >= maxConnections || l.guarded && !peer.IsOutside(conn) {
			conn.Close()
			continue
		}
		l.open.Add(1)
		return &connection{UnixConn: conn.(*net.UnixConn), listener: l}, nil
	}
}

// connection frees its place when it closes.
type connection struct {
	*net.UnixConn
	listener *listener
	closed   atomic.Bool
}

func (c *connection) Close() error {
	if !c.closed.Swap(true) {
		c.listener.open.Add(-1)
	}
	return c.UnixConn.Close()
}
