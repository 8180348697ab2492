package egress

import (
	"io"
	"net"
	"sync"
	"syscall"

	"agentpod/native/internal/descriptor"

	"golang.org/x/sys/unix"
)

// chunk is how many bytes are copied at a time. A buffer is taken when there is something to copy and
// returned afterwards; an idle connection holds none. splice(2) would avoid the copy, but needs a pipe for
// each direction even on idle connections. That is four of podd's few descriptors, and a megabyte each of the
// kernel's limit on pipes per user, which all sandboxes of a host share.
const chunk = 64 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

type halfCloser interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// relay copies both ways and closes both connections at the end. It passes the end of one direction on, and
// the other continues until its own end. If one side fails or is closed completely, it closes the other.
func relay(inside *net.TCPConn, outside *net.UnixConn) {
	finish := func(err error) {
		if err != nil {
			inside.SetLinger(0)
		}
		inside.Close()
		outside.Close()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		finish(copyOneWay(outside, inside))
	}()
	finish(copyOneWay(inside, outside))
	<-done
}

// copyOneWay copies until from ends and passes the end on. It returns when from is closed: because the other
// direction has ended too, or because the peer has disconnected, which a side that only writes would not
// notice.
func copyOneWay(from, to halfCloser) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	for err == nil {
		err = copyChunk(raw, to)
	}
	if err != io.EOF {
		return err
	}
	if err := to.CloseWrite(); err != nil {
		return err
	}
	return raw.Read(descriptor.HasHungUp)
}

// copyChunk waits for data, and only then takes a buffer.
func copyChunk(from syscall.RawConn, to net.Conn) error {
	var buffer *[chunk]byte
	var n int
	var failure error
	err := from.Read(func(fd uintptr) bool {
		buffer = chunks.Get().(*[chunk]byte)
		for {
			if n, failure = unix.Read(int(fd), buffer[:]); failure != unix.EINTR {
				break
			}
		}
		if failure == unix.EAGAIN {
			chunks.Put(buffer)
			buffer = nil
			return false
		}
		return true
	})
	if buffer == nil {
		return err
	}
	defer chunks.Put(buffer)
	if failure != nil {
		return failure
	}
	if n == 0 {
		return io.EOF
	}
	_, err = to.Write(buffer[:n])
	return err
}
