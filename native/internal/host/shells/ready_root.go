package shells

import (
	"fmt"
	"os"
	"runtime"

	"agentpod/native/internal/pool"

	"golang.org/x/sys/unix"
)

// A ReadyRoot is the root of a new sandbox with this machine's tools, which a shell got before a sandbox
// needs it. It belongs to one shell, and to one sandbox afterwards: nothing has run in it.
type ReadyRoot struct {
	// Files is the entry of the pool with the files that the sandbox will write.
	Files pool.Entry
	// Base and Env are those of rootfs.Mounted.
	Base string
	Env  map[string]string
	Sizes
	// Etc is the root's /etc.
	Etc *os.File
	// hostname is the namespace of the shell's host name.
	hostname *os.File
}

// Sizes are the sizes in bytes of the temporary file systems of a sandbox. 0 is the kernel's default.
type Sizes struct{ Tmp, Shm int64 }

// Close closes descriptors. The root stays.
func (r *ReadyRoot) Close() {
	for _, file := range []*os.File{r.Etc, r.hostname} {
		if file != nil {
			file.Close()
		}
	}
}

// RootMaker makes ready roots.
type RootMaker interface {
	// GiveRoot makes a root and swaps it into the shell. A shell that it fails for cannot be used. It does
	// nothing if ready roots are of no use here.
	GiveRoot(shell *Shell, sizes Sizes) error
	// IsCurrent reports whether a new sandbox would still get the same root.
	IsCurrent(root *ReadyRoot) bool
	// RemoveRoot removes the root of a shell that has ended.
	RemoveRoot(root *ReadyRoot) error
}

// SetRoot records that the shell runs in a ready root.
func (s *Shell) SetRoot(root *ReadyRoot) error {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/uts", s.Pid))
	if err != nil {
		return err
	}
	root.hostname = file
	s.Root = root
	return nil
}

// SetHostname gives the shell the host name of its sandbox.
func (r *ReadyRoot) SetHostname(name string) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/uts")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err := unix.Setns(int(r.hostname.Fd()), unix.CLONE_NEWUTS); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("setns: %w", err)
	}
	failure := unix.Sethostname([]byte(name))
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWUTS); err != nil {
		// A thread that stays locked ends with its goroutine, and nothing else runs in the sandbox's namespace.
		return fmt.Errorf("setns back: %w", err)
	}
	runtime.UnlockOSThread()
	return failure
}
