package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock takes the state directory for this process. The lock holds until the process ends.
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
	// IsServed can test this second lock without taking it.
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return file, nil
}

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart} }

// IsServed reports whether a podhost holds the state directory. It also returns true if that cannot be
// determined.
func IsServed(home string) bool {
	file, err := os.OpenFile(filepath.Join(home, "run/podhost.lock"), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer file.Close()
	lock := wholeFile()
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, lock) != nil || lock.Type != unix.F_UNLCK
}
