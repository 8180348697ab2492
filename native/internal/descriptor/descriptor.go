// Package descriptor works on the descriptors of open files and sockets.
package descriptor

import (
	"os"

	"golang.org/x/sys/unix"
)

// Control runs f on a file's descriptor without removing it from the poller, as Fd would.
func Control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// HasHungUp reports whether both directions of a socket have ended, or its peer has closed it.
func HasHungUp(fd uintptr) bool {
	state := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(state, 0)
	return err != nil && err != unix.EINTR || n > 0 && state[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}
