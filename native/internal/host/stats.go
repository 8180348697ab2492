package host

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

// diskCache remembers what a walk over an upper found, so that polling for figures does not keep the disk busy.
type diskCache struct {
	mu    sync.Mutex
	found map[string]diskFigure
}

type diskFigure struct {
	bytes int64
	at    time.Time
}

func (c *diskCache) bytes(id, path string) int64 {
	c.mu.Lock()
	figure, there := c.found[id]
	c.mu.Unlock()
	if there && time.Since(figure.at) < diskCacheFor {
		return figure.bytes
	}
	figure = diskFigure{bytes: safefs.Usage(path, maxDiskEntries), at: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = map[string]diskFigure{}
	}
	c.found[id] = figure
	return figure.bytes
}

func (c *diskCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.found, id)
}

func (h *Host) stats(id string) (any, error) {
	handle, err := h.existing(id)
	if err != nil {
		return nil, err
	}
	return struct {
		cgroup.Usage
		DiskBytes int64 `json:"diskBytes"`
	}{h.usage(handle), h.diskBytes(handle)}, nil
}

// usage is what the sandbox's groups count, or what its processes say where there are none.
func (h *Host) usage(handle *Handle) cgroup.Usage {
	if h.cgroups.Version() != "none" || !h.isAlive(handle.ID) {
		return h.cgroups.Usage(handle.group())
	}
	sum := proctree.Usage(handle.Pid)
	return cgroup.Usage{CPUMs: sum.CPUMs, MemBytes: sum.MemBytes, Pids: sum.Processes}
}

// diskBytes is what the sandbox has written: as its file system counts it, or else as a walk finds it.
func (h *Host) diskBytes(handle *Handle) int64 {
	if bytes, counted := h.pool.Usage(handle.files()); counted {
		return bytes
	}
	return h.walkedBytes(handle)
}

// ownBytes is how much there is in the sandbox's uppers, whoever wrote it. A file system that counts has not charged what came from a snapshot.
func (h *Host) ownBytes(handle *Handle) int64 {
	if bytes, counted := h.pool.Usage(handle.files()); counted {
		return handle.FromBytes + bytes
	}
	return h.walkedBytes(handle)
}

func (h *Host) walkedBytes(handle *Handle) int64 {
	return h.disk.bytes(handle.ID, filepath.Join(h.pool.Path(handle.files()), "upper"))
}

// trimLogs empties a podd's log that has grown too long. podd appends, so it goes on at the new end.
func (h *Host) trimLogs() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.live {
		path := l.log
		if info, err := os.Lstat(path); err == nil && info.Size() > maxLogBytes {
			os.Truncate(path, 0)
		}
	}
}
