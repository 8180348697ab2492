package streams

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// headLength is how many bytes say the length of a record.
	headLength = 4
	// recordLength is the most that one record holds.
	recordLength = 64 << 10
	// uploadLength is as long as the frames that Node sends. A stream holds such a buffer as long as it is open.
	uploadLength = 16 << 10
)

// records are taken when there is something to send and given back after; a connection on which nothing happens holds none.
var records = sync.Pool{New: func() any { return new([headLength + recordLength]byte) }}

// pair is a connection whose ends are both here: ours to copy from and to, theirs for who takes the stream. A socket of
// the kernel's has half-close, deadlines and back-pressure, which net/http, the tunnel and the way out rely on.
func pair() (ours, theirs *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if ours, err = take(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if theirs, err = take(fds[1]); err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

func take(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "stream")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// upload copies what the client sends. The client's end is passed on; when the client breaks off, so does the connection.
func upload(to *net.UnixConn, r *http.Request) {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, r.Body, make([]byte, uploadLength))
	if err == nil && to.CloseWrite() == nil {
		<-r.Context().Done()
	}
	to.Close()
}

// download sends what the connection says, in records of a length and as many bytes. Its end is a record of length 0,
// because a handler of net/http cannot end its answer and go on reading. It returns when both directions are over.
func download(w http.ResponseWriter, from *net.UnixConn) {
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	for {
		record, n := receive(raw)
		if record == nil {
			return
		}
		binary.BigEndian.PutUint32(record[:], uint32(n))
		if _, err := w.Write(record[:headLength+n]); err != nil {
			// A frame of a stream that was cut may still be read from this record, so it is not used again.
			return
		}
		records.Put(record)
		w.(http.Flusher).Flush()
		if n == 0 {
			raw.Read(hasHungUp)
			return
		}
	}
}

// receive waits for something to read, and only then takes a record. It returns nil when the connection has failed.
func receive(from interface {
	Read(func(fd uintptr) bool) error
}) (record *[headLength + recordLength]byte, n int) {
	var failure error
	err := from.Read(func(fd uintptr) bool {
		record = records.Get().(*[headLength + recordLength]byte)
		for {
			if n, failure = unix.Read(int(fd), record[headLength:]); failure != unix.EINTR {
				break
			}
		}
		if failure == unix.EAGAIN {
			records.Put(record)
			record = nil
			return false
		}
		return true
	})
	if err != nil || failure != nil {
		return nil, 0
	}
	return record, n
}

// hasHungUp reports whether both directions of a socket are over, or its peer is gone.
func hasHungUp(fd uintptr) bool {
	state := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(state, 0)
	return err != nil && err != unix.EINTR || n > 0 && state[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}
