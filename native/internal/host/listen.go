package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what a unix address holds, its terminating zero left out.
const maxSocketPath = 107

// listenUnix binds a socket that only this user can connect to. The path may be longer than an address: then it is bound through a
// descriptor of its directory.
func listenUnix(path string, backlog int) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	address := path
	if len(path) > maxSocketPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		address = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	// Set before bind, the mode is the path's from its first moment.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		file.Close()
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		file.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		file.Close()
		return nil, fmt.Errorf("listen %s: %w", path, err)
	}
	return file, nil
}

// Lock takes the home for this process; it holds until the process ends.
func Lock(home string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Join(home, "run"), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(home, "run/podhost.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another podhost serves %s", home)
	}
	// Whether this one is held can be asked without taking it.
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return file, nil
}

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart} }

// IsServed reports whether a podhost has the home, or whether that is not to be known.
func IsServed(home string) bool {
	file, err := os.OpenFile(filepath.Join(home, "run/podhost.lock"), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer file.Close()
	lock := wholeFile()
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, lock) != nil || lock.Type != unix.F_UNLCK
}
