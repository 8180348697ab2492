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
	// maxStrangers is how many connections may be without a token at a time.
	maxStrangers = 8
	// tokenTime is how long a connection may take to say it.
	tokenTime = 5 * time.Second
	// retryPause is how long to wait where a connection cannot be accepted because podd is out of descriptors.
	retryPause = 50 * time.Millisecond
)

// A Listener serves the newest connection that knows the token, and no other.
type Listener struct {
	socket *net.UnixListener
	doors  Doors
	opener []byte
	// patience is how long a connection may take to say the token.
	patience time.Duration

	mu      sync.Mutex
	current *session
}

// A session is a connection that has said the token. Its done is closed when nothing is read from it any more.
type session struct {
	conn net.Conn
	done chan struct{}
}

// Listen binds an abstract unix socket, whose name begins with @.
func Listen(name, token string, doors Doors) (*Listener, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &Listener{socket: socket, doors: doors, opener: []byte("agentpod " + token + "\n"), patience: tokenTime}, nil
}

func checkName(name string) error {
	if !strings.HasPrefix(name, "@") || len(name) < 2 || len(name) > 100 {
		return errors.New("the name of an abstract socket is @ and up to 99 bytes")
	}
	return nil
}

// Serve accepts until the socket closes.
func (l *Listener) Serve() error {
	places := make(chan struct{}, maxStrangers)
	for {
		conn, err := l.socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			time.Sleep(retryPause)
			continue
		}
		// SECURITY: payloads reach this socket. Those of an ordinary user are refused before they take a place, so
		// that they cannot keep the server out.
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

// Close ends Serve. The current session goes on.
func (l *Listener) Close() error { return l.socket.Close() }

// isKnown reads the line that every connection begins with. It reads no byte more, since HTTP/2 follows.
func (l *Listener) isKnown(conn *net.UnixConn) bool {
	said := make([]byte, len(l.opener))
	conn.SetReadDeadline(time.Now().Add(l.patience))
	if _, err := io.ReadFull(conn, said); err != nil {
		return false
	}
	conn.SetReadDeadline(time.Time{})
	return subtle.ConstantTimeCompare(said, l.opener) == 1
}

// serve cuts the former session, and only then begins the new one.
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
	l.doors.Serve(conn)
}
