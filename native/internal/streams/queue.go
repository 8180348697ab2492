package streams

import (
	"net"
	"sync"
)

// A Queue is a listener of connections that are handed to it.
type Queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewQueue makes an empty one.
func NewQueue() *Queue {
	return &Queue{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Hand waits until somebody accepts the connection. A queue that is closed closes it.
func (q *Queue) Hand(conn *net.UnixConn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		conn.Close()
	}
}

// Accept is the next connection.
func (q *Queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close ends every Accept.
func (q *Queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr names nothing: no socket is behind it.
func (q *Queue) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
