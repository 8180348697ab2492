package lifecycle

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/proctree"
	"agentpod/native/internal/safefs"
)

const (
	diskCacheFor   = 5 * time.Second
	maxDiskEntries = 200_000
	maxLogBytes    = 1 << 20
)

// diskCache keeps the size of directories, so that a client that polls does not keep the disk busy.
type diskCache struct {
	mu    sync.Mutex
	sizes map[string]diskSize
}

type diskSize struct {
	bytes int64
	at    time.Time
}

func (c *diskCache) bytes(id, path string) int64 {
	c.mu.Lock()
	size, there := c.sizes[id]
	c.mu.Unlock()
	if there && time.Since(size.at) < diskCacheFor {
		return size.bytes
	}
	size = diskSize{bytes: safefs.Usage(path, maxDiskEntries), at: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sizes == nil {
		c.sizes = map[string]diskSize{}
	}
	c.sizes[id] = size
	return size.bytes
}

func (c *diskCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sizes, id)
}

// Stats returns how much of the machine a sandbox uses. It needs no lock.
func (s *Sandboxes) Stats(id string) (any, error) {
	handle, err := s.existing(id)
	if err != nil {
		return nil, err
	}
	return struct {
		cgroup.Usage
		DiskBytes int64 `json:"diskBytes"`
	}{s.usage(handle), s.diskBytes(handle)}, nil
}

// usage is what the sandbox's groups count. Without groups it is the sum over its processes.
func (s *Sandboxes) usage(handle *Handle) cgroup.Usage {
	if s.Launcher.Cgroups.Version() != "none" || !s.isAlive(handle.ID) {
		return s.Launcher.Cgroups.Usage(handle.group())
	}
	sum := proctree.Usage(handle.Pid)
	return cgroup.Usage{CPUMs: sum.CPUMs, MemBytes: sum.MemBytes, Pids: sum.Processes}
}

// diskBytes is how much the sandbox has written, as its file system counts it. If the file system does not
// count, it is the size of its files.
func (s *Sandboxes) diskBytes(handle *Handle) int64 {
	if bytes, counted := s.Pool.Usage(handle.files()); counted {
		return bytes
	}
	return s.sizeOfFiles(handle)
}

// ownBytes is the size of the sandbox's own files, those that came from a snapshot included. A file system
// that counts has not charged those to the sandbox.
func (s *Sandboxes) ownBytes(handle *Handle) int64 {
	if bytes, counted := s.Pool.Usage(handle.files()); counted {
		return handle.FromBytes + bytes
	}
	return s.sizeOfFiles(handle)
}

func (s *Sandboxes) sizeOfFiles(handle *Handle) int64 {
	return s.disk.bytes(handle.ID, filepath.Join(s.Pool.Path(handle.files()), "upper"))
}

// TrimLogs empties podd logs that have grown too long. podd appends, so it continues at the new end.
func (s *Sandboxes) TrimLogs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.live {
		if info, err := os.Lstat(l.log); err == nil && info.Size() > maxLogBytes {
			os.Truncate(l.log, 0)
		}
	}
}
