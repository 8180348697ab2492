package streams

import (
	"net"
	"sync"
)

// A Queue is a listener of connections that are put into it.
type Queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Put waits until the connection is accepted. If the queue is closed, it closes the connection.
func (q *Queue) Put(conn *net.UnixConn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		conn.Close()
	}
}

// Accept returns the next connection.
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

// Addr is empty: there is no socket.
func (q *Queue) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
