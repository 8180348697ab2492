package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// Create makes an empty entry with a limit of so many bytes (0: no limit).
func (p *Pool) Create(e Entry, bytes int64) error {
	if !e.IsVolume {
		return ignoreExist(os.Mkdir(p.Path(e), 0o700))
	}
	parent, err := openDir(p.area(e))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := createSubvolume(parent, e.ID); err != nil {
		return err
	}
	return p.limit(parent, e.ID, bytes)
}

// Rename gives an entry another id.
func (p *Pool) Rename(from, to Entry) error { return os.Rename(p.Path(from), p.Path(to)) }

// aside is where an entry keeps files that it began with and does not show.
const aside = "below"

// CreateAfter is Create for an entry that will be above another one in an overlay. None of its files gets the
// inode number of a file in below, or in an entry that below was made after. Every subvolume numbers its
// files from the same start, and overlay shows the numbers of one file system unchanged. Programs would
// mistake two files for one, and cp, diff and the dynamic linker act on that. So the new subvolume begins as
// a snapshot of below, continues its numbering, and moves those files aside. That takes a millisecond and
// almost no space.
func (p *Pool) CreateAfter(e, below Entry, bytes int64) error {
	if !p.Clones(below, e) {
		return p.Create(e, bytes)
	}
	source, err := openDir(p.Path(below))
	if err != nil {
		return err
	}
	defer unix.Close(source)
	if err := p.snapshot(source, e, bytes); err != nil {
		return err
	}
	dir := p.Path(e)
	next := filepath.Join(dir, ".next")
	if err := os.Mkdir(next, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"upper", "work", aside} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(next, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(next, filepath.Join(dir, aside))
}

// NextNumber is the inode number that the next file of an entry would get: higher than those of all files
// that were ever in it. It is 0 if numbers do not matter, or nothing can be written any more.
func (p *Pool) NextNumber(e Entry) uint64 {
	if !e.IsVolume {
		return 0
	}
	path := filepath.Join(p.Path(e), ".number")
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return 0
	}
	var stat unix.Stat_t
	err := unix.Lstat(path, &stat)
	if os.Remove(path) != nil || err != nil {
		return 0
	}
	return stat.Ino
}

// Clone makes the entry `to` a copy of `from` at this moment. Snapshots cannot be changed afterwards.
func (p *Pool) Clone(from, to Entry, bytes int64) error {
	if !from.IsVolume || !to.IsVolume {
		return p.copy(from, to, bytes)
	}
	source, err := openDir(p.Path(from))
	if err != nil {
		return err
	}
	defer unix.Close(source)
	if !isSubvolume(source) {
		return p.copy(from, to, bytes)
	}
	if to.Area != Snapshots {
		return p.snapshot(source, to, bytes)
	}
	parent, err := openDir(p.area(to))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return snapshotSubvolume(source, parent, to.ID, true)
}

// snapshot makes a writable entry of the subvolume that source is open on.
func (p *Pool) snapshot(source int, to Entry, bytes int64) error {
	parent, err := openDir(p.area(to))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := snapshotSubvolume(source, parent, to.ID, false); err != nil {
		return err
	}
	return p.limit(parent, to.ID, bytes)
}

// Clones reports whether Clone shares blocks, within milliseconds. Otherwise it copies file by file.
func (p *Pool) Clones(from, to Entry) bool {
	if !from.IsVolume || !to.IsVolume {
		return false
	}
	source, err := openDir(p.Path(from))
	if err != nil {
		return false
	}
	defer unix.Close(source)
	return isSubvolume(source)
}

// copy copies the files that sandboxes wrote. The work directories belong to overlay and begin empty.
func (p *Pool) copy(from, to Entry, bytes int64) error {
	if err := p.Create(to, bytes); err != nil {
		return err
	}
	if err := safefs.CopyTree(filepath.Join(p.Path(from), "upper"), p.Path(to), "upper", p.CheckSpace); err != nil {
		return err
	}
	if to.Area == Snapshots {
		return p.Seal(to)
	}
	return nil
}

// Seal makes an entry that was filled file by file read-only, as far as the pool can.
func (p *Pool) Seal(e Entry) error {
	if !e.IsVolume {
		return nil
	}
	fd, err := openDir(p.Path(e))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return setReadOnly(fd)
}

// Remove removes an entry. It succeeds if there is none.
func (p *Pool) Remove(e Entry) error {
	if !e.IsVolume {
		for _, name := range []string{"upper", "work", "data"} {
			if err := safefs.RemoveTree(p.Path(e), name); err != nil {
				return err
			}
		}
		return nil
	}
	dir, err := p.Open()
	if err != nil || dir == "" {
		// Without a pool there is nothing to remove. If the pool cannot be used, nothing can be removed.
		return err
	}
	parent, err := openDir(p.area(e))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	volume, err := openDirAt(parent, e.ID)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	isPlain := !isSubvolume(volume)
	number, err := subvolumeID(volume)
	unix.Close(volume)
	if isPlain {
		return safefs.RemoveTree(p.area(e), e.ID)
	}
	if err != nil {
		return err
	}
	if err := deleteSubvolume(parent, e.ID); err != nil {
		return fmt.Errorf("%s: %w", e.ID, err)
	}
	p.quotas.deleted(number)
	return nil
}
