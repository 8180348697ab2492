// Package unixsocket listens at and connects to Unix sockets whose paths may be longer than an address holds.
package unixsocket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the length that a Unix address holds, without its terminating zero.
const maxPath = 107

// address returns a name for path that fits into an address. A long path is named through a descriptor of its
// directory, which done closes.
func address(path string) (name string, done func(), err error) {
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}

// Listen binds a socket that only this user can connect to. It replaces a socket that exists.
func Listen(path string, backlog int) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	name, done, err := address(path)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	// The mode is set before bind, so the path never exists with a wider one.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		file.Close()
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		file.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		file.Close()
		return nil, fmt.Errorf("listen %s: %w", path, err)
	}
	return file, nil
}

// Dial connects to the socket at path.
func Dial(path string, timeout time.Duration) (net.Conn, error) {
	name, done, err := address(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.DialTimeout("unix", name, timeout)
}
