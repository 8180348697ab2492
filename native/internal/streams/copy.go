package streams

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"agentpod/native/internal/descriptor"

	"golang.org/x/sys/unix"
)

const (
	// headLength is the number of bytes in which the length of a record is written.
	headLength = 4
	// recordLength is the largest length of one record.
	recordLength = 64 << 10
	// uploadLength is as long as the frames that Node sends. A stream holds such a buffer as long as it is
	// open.
	uploadLength = 16 << 10
)

// records are taken when there is something to send and returned afterwards; an idle connection holds none.
var records = sync.Pool{New: func() any { return new([headLength + recordLength]byte) }}

// Pair is a connection with both ends in this process: ours to copy from and to, theirs for the target of the
// stream. A kernel socket has half-close, deadlines and back-pressure, which net/http, the tunnel and the
// egress rely on.
func Pair() (ours, theirs *net.UnixConn, err error) {
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

// upload copies what the client sends. It passes the end of the client's data on. If the client breaks the
// stream, it breaks the connection.
func upload(to *net.UnixConn, r *http.Request) {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, r.Body, make([]byte, uploadLength))
	if err == nil && to.CloseWrite() == nil {
		<-r.Context().Done()
	}
	to.Close()
}

// download sends the data of the connection, in records of a length and that many bytes. Its end is a record
// of length 0, because a handler of net/http cannot end its answer and continue to read. It returns when both
// directions have ended.
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
			// A frame of a broken stream may still be read from this record, so it is not used again.
			return
		}
		records.Put(record)
		w.(http.Flusher).Flush()
		if n == 0 {
			raw.Read(descriptor.HasHungUp)
			return
		}
	}
}

// receive waits for data, and only then takes a record. It returns nil if the connection has failed.
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
