package wayout

import (
	"log"
	"net"
	"sync"
	"time"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

// maxParked is how many connections of the egress process wait at a time.
const maxParked = 64

// A link holds the connections that the egress process has made ahead, for whoever inside wants out next.
type link struct {
	// listener is nil where connections come by streams alone.
	listener *net.UnixListener
	guarded  bool

	mu      sync.Mutex
	parked  []*net.UnixConn
	waiting []chan *net.UnixConn
}

// accept parks what comes, until the listener closes.
func (l *link) accept() {
	for {
		conn, err := l.listener.AcceptUnix()
		if err != nil {
			if !mayRetry(err) {
				log.Printf("the way out: %v", err)
				return
			}
			continue
		}
		// SECURITY: attack case CP-20; what runs inside must not be handed the connections of others.
		if l.guarded && !peer.IsOutside(conn) {
			conn.Close()
			continue
		}
		l.park(conn)
	}
}

// park hands the connection to the one who has waited longest, or keeps it. Of too many, those that the egress process has left go first.
func (l *link) park(conn *net.UnixConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		l.waiting[0] <- conn
		l.waiting = l.waiting[1:]
		return
	}
	if len(l.parked) == maxParked {
		l.dropDead()
	}
	if len(l.parked) == maxParked {
		conn.Close()
		return
	}
	l.parked = append(l.parked, conn)
}

func (l *link) dropDead() {
	living := l.parked[:0]
	for _, conn := range l.parked {
		if isAlive(conn) {
			living = append(living, conn)
		} else {
			conn.Close()
		}
	}
	for i := len(living); i < len(l.parked); i++ {
		l.parked[i] = nil
	}
	l.parked = living
}

// take returns the connection that has been parked longest, or the next one to come; nil when none has by the deadline.
func (l *link) take(deadline time.Time) *net.UnixConn {
	for {
		conn := l.next(deadline)
		if conn == nil || isAlive(conn) {
			return conn
		}
		conn.Close()
	}
}

func (l *link) next(deadline time.Time) *net.UnixConn {
	l.mu.Lock()
	if len(l.parked) > 0 {
		conn := l.parked[0]
		l.parked[0] = nil
		l.parked = l.parked[1:]
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

// giveUp leaves the queue; what was handed over at the same moment is not lost.
func (l *link) giveUp(turn chan *net.UnixConn) *net.UnixConn {
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

// isAlive looks for the end of a connection without waiting for it, and without taking anything from it.
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
