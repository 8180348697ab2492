package inside

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"agentpod/native/internal/vm/link"

	"golang.org/x/sys/unix"
)

// acceptPause is how long to wait if a connection cannot be accepted.
const acceptPause = 10 * time.Millisecond

// listenVsock accepts connections of the host. They look like one channel.
func listenVsock() (io.ReadWriter, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("vsock: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: link.VsockPort}); err != nil {
		return nil, fmt.Errorf("vsock: bind: %w", err)
	}
	if err := unix.Listen(fd, 4); err != nil {
		return nil, fmt.Errorf("vsock: listen: %w", err)
	}
	channel := newLatest()
	go func() {
		for {
			conn, from, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err != nil {
				time.Sleep(acceptPause)
				continue
			}
			if !isHost(from) {
				unix.Close(conn)
				continue
			}
			channel.use(os.NewFile(uintptr(conn), "vsock"))
		}
	}()
	return channel, nil
}

// isHost reports whether the host connects. SECURITY: programs of the sandbox can connect too, on kernels
// that have a loopback for vsock.
func isHost(from unix.Sockaddr) bool {
	address, known := from.(*unix.SockaddrVM)
	return known && address.CID == unix.VMADDR_CID_HOST
}

// latest is the newest of several connections, as one channel. A connection ends when the machine is saved or
// loaded, or when the host begins another one, which it does only if the one before is of no use.
type latest struct {
	mu   sync.Mutex
	next *sync.Cond
	conn io.ReadWriteCloser
}

func newLatest() *latest {
	l := &latest{}
	l.next = sync.NewCond(&l.mu)
	return l
}

func (l *latest) use(conn io.ReadWriteCloser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
	l.conn = conn
	l.next.Broadcast()
}

// drop closes a connection that has failed.
func (l *latest) drop(conn io.ReadWriteCloser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn = nil
	}
	conn.Close()
}

// Read waits for a connection if there is none. It never fails.
func (l *latest) Read(data []byte) (int, error) {
	for {
		l.mu.Lock()
		for l.conn == nil {
			l.next.Wait()
		}
		conn := l.conn
		l.mu.Unlock()
		if n, err := conn.Read(data); n > 0 {
			return n, nil
		} else if err != nil {
			l.drop(conn)
		}
	}
}

var errNoHost = errors.New("the host is not connected")

// Write fails if there is no connection, which ends the session.
func (l *latest) Write(data []byte) (int, error) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return 0, errNoHost
	}
	return conn.Write(data)
}
