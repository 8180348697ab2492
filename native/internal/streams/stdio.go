package streams

import (
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stdio is the byte stream of podd's own stdin and stdout. It puts /dev/null in their places, so that nothing
// else in podd, and no payload, can read or write them.
func Stdio() (net.Conn, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	in, err := moveAway(0, null)
	if err != nil {
		return nil, err
	}
	out, err := moveAway(1, null)
	if err != nil {
		return nil, err
	}
	return &stdio{in: in, out: out}, nil
}

// moveAway gives a descriptor a new number, and its old one to null.
func moveAway(fd int, null *os.File) (*os.File, error) {
	const lowest = 3
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, lowest)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
		return nil, err
	}
	// A descriptor that can be polled occupies no thread while it is idle.
	unix.SetNonblock(moved, true)
	return os.NewFile(uintptr(moved), "stdio"), nil
}

// stdio is a connection of two files. It has no deadlines: the HTTP/2 server sets none unless it is
// configured to.
type stdio struct{ in, out *os.File }

func (s *stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }

func (s *stdio) Close() error {
	s.in.Close()
	return s.out.Close()
}

func (s *stdio) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (s *stdio) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (s *stdio) SetDeadline(time.Time) error      { return nil }
func (s *stdio) SetReadDeadline(time.Time) error  { return nil }
func (s *stdio) SetWriteDeadline(time.Time) error { return nil }
