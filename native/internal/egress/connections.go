package egress

import (
	"log"
	"net"
	"sync"
	"time"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

// maxIdle is how many connections of the egress process are kept ready.
const maxIdle = 64

// connections are those that the egress process has opened in advance, for the next programs that connect to
// the outside.
type connections struct {
	// listener is nil if connections come only by streams.
	listener *net.UnixListener
	guarded  bool

	mu      sync.Mutex
	idle    []*net.UnixConn
	waiting []chan *net.UnixConn
}

// accept keeps connections that arrive, until the listener closes.
func (l *connections) accept() {
	for {
		conn, err := l.listener.AcceptUnix()
		if err != nil {
			if !mayRetry(err) {
				log.Printf("egress connections: %v", err)
				return
			}
			continue
		}
		// SECURITY: attack case CP-20; a program inside must not receive the connections of others.
		if l.guarded && !peer.IsOutside(conn) {
			conn.Close()
			continue
		}
		l.Add(conn)
	}
}

// Add gives the connection to the goroutine that has waited longest, or keeps it. If there are too many,
// those that the egress process has closed are dropped first.
func (l *connections) Add(conn *net.UnixConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		l.waiting[0] <- conn
		l.waiting = l.waiting[1:]
		return
	}
	if len(l.idle) == maxIdle {
		l.dropDead()
	}
	if len(l.idle) == maxIdle {
		conn.Close()
		return
	}
	l.idle = append(l.idle, conn)
}

// Prune closes idle connections that have ended.
func (l *connections) Prune() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropDead()
}

func (l *connections) dropDead() {
	living := l.idle[:0]
	for _, conn := range l.idle {
		if isAlive(conn) {
			living = append(living, conn)
		} else {
			conn.Close()
		}
	}
	for i := len(living); i < len(l.idle); i++ {
		l.idle[i] = nil
	}
	l.idle = living
}

// take returns the oldest idle connection, or the next one that arrives. It returns nil if none arrives by
// the deadline.
func (l *connections) take(deadline time.Time) *net.UnixConn {
	for {
		conn := l.next(deadline)
		if conn == nil || isAlive(conn) {
			return conn
		}
		conn.Close()
	}
}

func (l *connections) next(deadline time.Time) *net.UnixConn {
	l.mu.Lock()
	if len(l.idle) > 0 {
		conn := l.idle[0]
		l.idle[0] = nil
		l.idle = l.idle[1:]
		l.mu.Unlock()
		return conn
	}
	turn := make(chan *net.UnixConn, 1)
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case conn := <-turn:
		return conn
	case <-timer.C:
		return l.giveUp(turn)
	}
}

// giveUp leaves the queue. It returns a connection that arrived at the same moment.
func (l *connections) giveUp(turn chan *net.UnixConn) *net.UnixConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return nil
		}
	}
	return <-turn
}

// isAlive checks whether a connection has ended, without waiting and without reading from it.
func isAlive(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		alive = err == unix.EAGAIN || err == nil && n > 0
	})
	return alive
}
