// Package pool keeps the files that sandboxes write and their snapshots: as subvolumes of a btrfs where there can be one, else as
// plain directories.
package pool

import (
	"errors"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

// Kinds of a pool.
const (
	// Btrfs: the state directory lies on one.
	Btrfs = "btrfs"
	// Loop: a btrfs in a file of the state directory.
	Loop = "loop"
	// Copy: plain directories, and a snapshot is a copy.
	Copy = "copy"
)

// An Area is a directory of the pool with one entry for each id.
type Area string

const (
	Sandboxes Area = "sandboxes"
	Snapshots Area = "snapshots"
)

// An Entry is a directory that holds "upper" and "work".
type Entry struct {
	Area Area
	ID   string
	// IsVolume: a subvolume of the pool. The others are plain directories in the home, and stay that when there is a pool later.
	IsVolume bool
}

// Options of a pool.
type Options struct {
	Home string
	// Point is an empty directory on podhost's stage, where a loop pool is mounted.
	Point    string
	Rootless bool
	Log      *log.Logger
}

// A Pool is opened by its first use.
type Pool struct {
	o Options

	// growing is held while the pool grows, and while it is unmounted; it is taken before mu.
	growing sync.Mutex

	mu     sync.Mutex
	opened bool
	// cleared: nobody has used it since Clear.
	cleared bool
	kind    string
	reason  string
	// fault is why it is unavailable, as found when it was last tried.
	fault error
	tried time.Time
	// dir is where the areas are; "" for copies, which lie in the home.
	dir string
	// id is the file system's, of a loop pool.
	id     string
	image  *os.File
	device *os.File
	quotas quotas
	// freed is when a pool that could not grow was last told to free what is deleted.
	freed time.Time
}

// New returns a pool that nothing has been done about yet.
func New(o Options) *Pool { return &Pool{o: o} }

// Info is what hello says about a pool.
type Info struct {
	Kind         string `json:"kind"`
	Available    bool   `json:"available"`
	Quotas       bool   `json:"quotas"`
	SizeBytes    int64  `json:"sizeBytes"`
	FreeBytes    int64  `json:"freeBytes"`
	ReserveBytes int64  `json:"reserveBytes"`
	Reason       string `json:"reason,omitempty"`
}

func (p *Pool) Info() Info {
	p.Prepare()
	p.mu.Lock()
	defer p.mu.Unlock()
	disk, _ := spaceOf(p.o.Home)
	info := Info{Kind: p.kind, Available: p.fault == nil, Quotas: p.quotas.on(), ReserveBytes: disk.reserve(), Reason: p.reason, SizeBytes: disk.size, FreeBytes: disk.free}
	if p.kind == Loop && p.opened {
		inside := p.inside()
		info.SizeBytes, info.FreeBytes = inside.size, most(inside.free, 0)
	}
	return info
}

// Entry names an entry that is to be made.
func (p *Pool) Entry(area Area, id string) (Entry, error) {
	dir, err := p.Open()
	return Entry{area, id, dir != ""}, err
}

// Found names an entry about which nothing is written down: where it would be if it is anywhere. It does not open the pool.
func (p *Pool) Found(area Area, id string) Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Entry{area, id, p.opened && p.dir != ""}
}

// Path is where an entry lies, whether it exists or not.
func (p *Pool) Path(e Entry) string { return filepath.Join(p.area(e), e.ID) }

func (p *Pool) area(e Entry) string {
	if !e.IsVolume {
		return filepath.Join(p.o.Home, string(e.Area))
	}
	dir, err := p.volumes()
	if err != nil {
		// A name that nothing has: whoever needs the files has asked Has, or is told that they cannot be opened.
		dir = filepath.Join(p.o.Home, "pool-is-not-mounted")
	}
	return filepath.Join(dir, string(e.Area))
}

// Has reports whether the files of an entry are there. Only a pool that is open can say that they are not.
func (p *Pool) Has(e Entry) (bool, error) {
	if e.IsVolume {
		if _, err := p.volumes(); err != nil {
			return false, err
		}
	}
	_, err := os.Lstat(p.Path(e))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Room refuses when the disk below is down to its reserve. What is there goes on; nothing is added.
func (p *Pool) Room() error {
	disk, err := spaceOf(p.o.Home)
	if err != nil {
		return err
	}
	if reserve := disk.reserve(); disk.free < reserve {
		return hostproto.Errorf(hostproto.ResourceExhausted, "disk.reserve", "the disk that holds the state directory has %d MiB free, less than the %d MiB kept in reserve",
			disk.free/mib, reserve/mib).WithHint("free space on that disk, or destroy sandboxes and snapshots")
	}
	return nil
}

// IDs lists the subvolumes of an area; nil for copies, which the home's own directories list.
func (p *Pool) IDs(area Area) []string {
	dir, err := p.Open()
	if err != nil || dir == "" {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(dir, string(area)))
	var ids []string
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids
}

// SyncEntry writes out the file system that an entry lies on.
func (p *Pool) SyncEntry(e Entry) error {
	if e.IsVolume {
		if _, err := p.volumes(); err != nil {
			return err
		}
	}
	fd, err := openDir(p.Path(e))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.NewSyscallError("syncfs", unix.Syncfs(fd))
}

func openDir(path string) (int, error) {
	fd, err := openDirAt(unix.AT_FDCWD, path)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func openDirAt(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func ignoreExist(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
