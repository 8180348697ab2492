package pool

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// space is what a file system has for an ordinary user, in bytes.
type space struct{ size, free int64 }

func spaceOf(path string) (space, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return space{}, err
	}
	return space{size: int64(fs.Blocks) * int64(fs.Bsize), free: int64(fs.Bavail) * int64(fs.Bsize)}, nil
}

// reserve is how much of a disk stays free: a twentieth within bounds, and never more than a tenth, so that a
// small disk can still be used.
func (s space) reserve() int64 {
	return least(most(512*mib, least(5*gib, s.size/20)), s.size/10)
}

func least(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func most(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// WritableBytes is how much can still be written to the pool: the free space of a loop pool, and what the
// disk has above its reserve.
func (p *Pool) WritableBytes() int64 {
	disk, _ := spaceOf(p.o.Home)
	spare := most(disk.free-disk.reserve(), 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind == Loop && p.opened {
		spare += most(p.inside().free, 0)
	}
	return spare
}

// allocation is how a loop pool's file system uses its device.
type allocation struct {
	size, free int64
	// unallocated belongs neither to data nor to metadata yet; metadataFree is what metadata has left of its
	// own.
	unallocated, metadataFree int64
}

// inside asks the file system what it has reserved. statfs is not enough: data that sandboxes have written
// and the kernel has not placed yet, which may be gigabytes, still counts as free there.
func (p *Pool) inside() allocation {
	a := allocation{size: fileSize(p.image)}
	a.free, a.unallocated = a.size, a.size
	for _, kind := range []string{"data", "metadata", "system"} {
		dir := filepath.Join("/sys/fs/btrfs", p.id, "allocation", kind)
		read := func(name string) int64 { return p.counters.read(dir, name) }
		taken := read("bytes_used") + read("bytes_reserved") + read("bytes_pinned") + read("bytes_may_use")
		a.free -= taken
		a.unallocated -= read("disk_total")
		if kind == "metadata" {
			a.metadataFree = read("total_bytes") - taken
		}
	}
	return a
}

// isLow reports whether the pool has to grow now. The pool is checked ten times a second. A sandbox can write
// about two gigabytes a second, and growing takes up to half a second on a busy disk; this level leaves
// enough space for that.
func (a allocation) isLow() bool {
	return a.free < least(2*gib, most(256*mib, a.size/2)) || (a.unallocated < 256*mib && a.metadataFree < 256*mib)
}
