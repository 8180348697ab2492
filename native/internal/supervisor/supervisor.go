// Package supervisor has what the supervisors of gVisor sandboxes and of virtual machines share. A supervisor
// is the first process of a pid namespace. It outlives podhost.
package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// acceptPause is how long to wait if a connection cannot be accepted.
const acceptPause = 50 * time.Millisecond

// Serve calls handle for every connection to a listening socket, one after the other. It takes the file over,
// and returns only if it cannot listen.
func Serve(file *os.File, handle func(conn *net.UnixConn)) error {
	if file == nil {
		return errors.New("the descriptor of a listening socket is missing")
	}
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		handle(conn.(*net.UnixConn))
	}
}

// MountProc mounts the /proc of the supervisor's pid namespace.
func MountProc() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// DropMounts gives up the mounts below podhost's stage, of which the supervisor's namespace has copies: they
// would keep the files of other sandboxes mounted. It needs a /proc of the supervisor's.
func DropMounts(stage string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(string(data), "\n")
	// A mount comes after the one that it is in.
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 4 && strings.HasPrefix(fields[4], stage+"/") {
			unix.Unmount(fields[4], unix.MNT_DETACH)
		}
	}
	return nil
}
