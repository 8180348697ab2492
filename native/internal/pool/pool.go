// Package pool keeps the files that sandboxes write, and their snapshots: as subvolumes of a btrfs if
// possible, otherwise as plain directories.
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
	// Btrfs: the state directory is on one.
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
	// Volumes: an entry holds "data" instead of "upper" and "work".
	Volumes Area = "volumes"
	// Machines: an entry holds "data" with the memory of a virtual machine, or what machines start from.
	Machines Area = "machines"
)

// areas are all areas of a pool.
var areas = []Area{Sandboxes, Snapshots, Volumes, Machines}

// An Entry is a directory that holds "upper" and "work".
type Entry struct {
	Area Area
	ID   string
	// IsVolume: a subvolume of the pool. Other entries are plain directories in the state directory, and stay
	// so when there is a pool later.
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

// A Pool opens at its first use.
type Pool struct {
	o Options

	// growing is held while the pool grows, and while it is unmounted; it is locked before mu.
	growing sync.Mutex

	mu     sync.Mutex
	opened bool
	// cleared: nothing has used the pool since Clear.
	cleared bool
	kind    string
	reason  string
	// fault is why the pool is unavailable, as of the last try.
	fault error
	tried time.Time
	// dir is the directory of the areas; "" for copies, which are in the state directory.
	dir string
	// id is the id of a loop pool's file system.
	id       string
	counters counters
	image    *os.File
	device   *os.File
	quotas   quotas
	// freed is when a pool that could not grow last had to free deleted subvolumes.
	freed time.Time
}

// New returns a pool that is not open.
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

// Entry returns an entry that is about to be made.
func (p *Pool) Entry(area Area, id string) (Entry, error) {
	dir, err := p.Open()
	return Entry{area, id, dir != ""}, err
}

// Locate returns an entry that has no record: the place where it would be. It does not open the pool.
func (p *Pool) Locate(area Area, id string) Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Entry{area, id, p.opened && p.dir != ""}
}

// Path is the path of an entry, whether it exists or not.
func (p *Pool) Path(e Entry) string { return filepath.Join(p.area(e), e.ID) }

func (p *Pool) area(e Entry) string {
	if !e.IsVolume {
		return filepath.Join(p.o.Home, string(e.Area))
	}
	dir, err := p.volumes()
	if err != nil {
		// This name never exists: callers that need the files have called Has, or get an error when they open
		// them.
		dir = filepath.Join(p.o.Home, "pool-is-not-mounted")
	}
	return filepath.Join(dir, string(e.Area))
}

// Has reports whether the files of an entry exist. Only an open pool can say that they do not.
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

// CheckSpace fails when the disk below is down to its reserve. Existing sandboxes continue; nothing new is
// made.
func (p *Pool) CheckSpace() error {
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

// IDs lists the subvolumes of an area. It is nil for copies, which the state directory's own directories
// list.
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

// SyncEntry writes out the file system of an entry.
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
