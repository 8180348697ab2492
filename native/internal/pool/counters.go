package pool

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// counters reads numbers that a btrfs file system shows in sysfs. The pool needs them ten times a second, so
// the files stay open.
type counters struct {
	mu    sync.Mutex
	files map[string]int
}

// read returns 0 for a counter that the kernel does not have.
func (c *counters) read(dir, name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := filepath.Join(dir, name)
	fd, isOpen := c.files[path]
	if !isOpen {
		var err error
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return 0
		}
		if c.files == nil {
			c.files = map[string]int{}
		}
		c.files[path] = fd
	}
	var text [24]byte
	length, err := unix.Pread(fd, text[:], 0)
	if err != nil {
		// The file system was unmounted meanwhile, and perhaps mounted again.
		unix.Close(fd)
		delete(c.files, path)
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text[:length])), 10, 64)
	return n
}

func (c *counters) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fd := range c.files {
		unix.Close(fd)
	}
	c.files = nil
}
