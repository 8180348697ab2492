package streams

import (
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"agentpod/native/internal/peer"
)

const (
	// maxUnauthenticated is how many connections may be without a token at a time.
	maxUnauthenticated = 8
	// tokenTime is how long a connection may take to send the token.
	tokenTime = 5 * time.Second
	// retryPause is how long to wait if a connection cannot be accepted because podd is out of descriptors.
	retryPause = 50 * time.Millisecond
)

// A Listener serves the newest connection that knows the token, and no other.
type Listener struct {
	socket   *net.UnixListener
	targets  Targets
	greeting []byte
	// timeout is how long a connection may take to send the token.
	timeout time.Duration

	mu      sync.Mutex
	current *session
}

// A session is a connection that has sent the token. Its done is closed when nothing is read from it any
// more.
type session struct {
	conn net.Conn
	done chan struct{}
}

// Listen binds an abstract unix socket, whose name begins with @.
func Listen(name, token string, targets Targets) (*Listener, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &Listener{socket: socket, targets: targets, greeting: []byte("agentpod " + token + "\n"), timeout: tokenTime}, nil
}

func checkName(name string) error {
	if !strings.HasPrefix(name, "@") || len(name) < 2 || len(name) > 100 {
		return errors.New("the name of an abstract socket is @ and 1 to 99 bytes")
	}
	return nil
}

// Serve accepts until the socket closes.
func (l *Listener) Serve() error {
	places := make(chan struct{}, maxUnauthenticated)
	for {
		conn, err := l.socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			time.Sleep(retryPause)
			continue
		}
		// SECURITY: payloads can reach this socket. Those of an ordinary user are refused before they take a
		// place, so that they cannot keep the server out.
		if !peer.IsUser(conn, os.Geteuid()) {
			conn.Close()
			continue
		}
		select {
		case places <- struct{}{}:
			go func() {
				known := l.isKnown(conn)
				<-places
				if known {
					l.serve(conn)
				}
				conn.Close()
			}()
		default:
			conn.Close()
		}
	}
}

// Close ends Serve. The current session continues.
func (l *Listener) Close() error { return l.socket.Close() }

// isKnown reads the line that every connection begins with, and no byte more, because HTTP/2 follows.
func (l *Listener) isKnown(conn *net.UnixConn) bool {
	said := make([]byte, len(l.greeting))
	conn.SetReadDeadline(time.Now().Add(l.timeout))
	if _, err := io.ReadFull(conn, said); err != nil {
		return false
	}
	conn.SetReadDeadline(time.Time{})
	return subtle.ConstantTimeCompare(said, l.greeting) == 1
}

// serve breaks the former session, and only then begins the new one.
//
// INVARIANT: no stream of one session is ever answered on another.
func (l *Listener) serve(conn *net.UnixConn) {
	own := &session{conn: conn, done: make(chan struct{})}
	l.mu.Lock()
	former := l.current
	l.current = own
	l.mu.Unlock()
	defer close(own.done)
	if former != nil {
		former.conn.Close()
		<-former.done
	}
	l.targets.Serve(conn)
}
