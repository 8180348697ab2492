package wayout

import (
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// chunk is what is moved at a time. A buffer is taken when there is something to move and given back after; a connection on which nothing
// happens holds none. splice(2) would spare the copy, but a pipe for each direction, idle or not: four descriptors of podd's few, and a
// megabyte each of what the kernel lets one user have in pipes, which all sandboxes of a host share.
const chunk = 64 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

type halfCloser interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// join copies both ways and closes both when it is over. The end of one direction is passed on, and the other goes on until its own. When one side
// fails, or is gone altogether, so is the other.
func join(inside *net.TCPConn, outside *net.UnixConn) {
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
		finish(carry(outside, inside))
	}()
	finish(carry(inside, outside))
	<-done
}

// carry copies until from ends and passes the end on. It returns when from is gone: because the other direction is over too, or because the peer
// has left, which nobody who only writes to it would notice.
func carry(from, to halfCloser) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	for err == nil {
		err = move(raw, to)
	}
	if err != io.EOF {
		return err
	}
	if err := to.CloseWrite(); err != nil {
		return err
	}
	return raw.Read(hasHungUp)
}

// move waits for something to read, and only then takes a buffer.
func move(from syscall.RawConn, to net.Conn) error {
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

// hasHungUp reports whether both directions of a socket are over, or its peer is gone.
func hasHungUp(fd uintptr) bool {
	state := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(state, 0)
	return err != nil && err != unix.EINTR || n > 0 && state[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}
