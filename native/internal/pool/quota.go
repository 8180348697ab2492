package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// quotas are a pool's simple quotas. Classic quotas are never used: after many deletions a snapshot takes
// seconds with them.
type quotas struct {
	// sysfs has the current counts, without a transaction; "" if there are no quotas.
	sysfs string

	mu    sync.Mutex
	stale []uint64
}

func (q *quotas) on() bool { return q.sysfs != "" }

// find looks for simple quotas on fd's file system. It enables them only if the file system is ours, because
// they make it unreadable to older kernels.
func (q *quotas) find(fd int, isOurs bool) error {
	id, err := fileSystemID(fd)
	if err != nil {
		return err
	}
	dir := filepath.Join("/sys/fs/btrfs", id, "qgroups")
	mode := readText(dir, "mode")
	if mode == "" && isOurs {
		if err := enableSimpleQuotas(fd); err != nil {
			return err
		}
		mode = readText(dir, "mode")
	}
	if mode != "squota" {
		return fmt.Errorf("simple quotas are not enabled")
	}
	q.sysfs = dir
	return nil
}

// limit limits an entry of the directory parent.
func (p *Pool) limit(parent int, id string, bytes int64) error {
	if bytes == 0 || !p.quotas.on() {
		return nil
	}
	entry, err := openDirAt(parent, id)
	if err != nil {
		return err
	}
	defer unix.Close(entry)
	return limitEntry(entry, bytes)
}

// limitEntry refuses anything but a subvolume: the limit would be that of the whole file system.
func limitEntry(entry int, bytes int64) error {
	if !isSubvolume(entry) {
		return errPlain
	}
	number, err := subvolumeID(entry)
	if err != nil {
		return err
	}
	return limitSubvolume(entry, number, bytes)
}

var errPlain = errors.New("its files are a plain directory of the pool (as in a copied state directory), not a subvolume")

// Limits reports whether the limits of Create and Clone are enforced for a new entry, and if not, why.
func (p *Pool) Limits() (bool, string) {
	p.Open()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.quotas.on():
		return true, ""
	case p.kind == Copy:
		return false, "no btrfs pool: " + p.reason
	}
	return false, p.reason
}

// Usage is how much was written through an entry, if the file system counts it. A clone is not charged for
// what it began with.
func (p *Pool) Usage(e Entry) (int64, bool) {
	path := p.Path(e)
	if !e.IsVolume || !p.quotas.on() {
		return 0, false
	}
	fd, err := openDir(path)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	if !isSubvolume(fd) {
		return 0, false
	}
	number, err := subvolumeID(fd)
	if err != nil {
		return 0, false
	}
	bytes, err := strconv.ParseInt(readText(p.quotas.sysfs, fmt.Sprintf("0_%d/referenced", number)), 10, 64)
	return bytes, err == nil
}

// deleted records a subvolume whose count stays until the file system has freed it.
func (q *quotas) deleted(id uint64) {
	if !q.on() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = append(q.stale, id)
}

// sweep removes the counts of deleted subvolumes. If a snapshot still has blocks of one, its count stays
// until the snapshot is removed too.
func (q *quotas) sweep(fd int) {
	q.mu.Lock()
	stale := q.stale
	q.stale = nil
	q.mu.Unlock()
	var left []uint64
	for _, id := range stale {
		dir := filepath.Join(q.sysfs, fmt.Sprintf("0_%d", id))
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if readText(dir, "referenced") != "0" || removeQgroup(fd, id) != nil {
			left = append(left, id)
		}
	}
	q.mu.Lock()
	q.stale = append(q.stale, left...)
	q.mu.Unlock()
}

// findStale records every count without a subvolume that an earlier podhost left behind.
func (q *quotas) findStale(known map[uint64]bool) {
	names, _ := os.ReadDir(q.sysfs)
	for _, name := range names {
		number, err := strconv.ParseUint(strings.TrimPrefix(name.Name(), "0_"), 10, 64)
		if err == nil && strings.HasPrefix(name.Name(), "0_") && number >= firstInode && !known[number] {
			q.deleted(number)
		}
	}
}

func readText(dir, name string) string {
	data, _ := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(data))
}

// SetLimit changes the limit of an entry.
func (p *Pool) SetLimit(e Entry, bytes int64) error {
	if !e.IsVolume || !p.quotas.on() {
		return nil
	}
	fd, err := openDir(p.Path(e))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := limitEntry(fd, bytes); err != errPlain || bytes > 0 {
		return err
	}
	return nil
}
