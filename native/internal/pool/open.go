package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

// tryAgain is how long to wait before trying to open an unavailable pool again: many requests may come at
// once.
const tryAgain = time.Second

// Open opens the pool unless it is open, and returns the directory of its areas, or "" for copies. It fails
// only if a pool exists and cannot be used. The pool is then unavailable, a later use tries again, and
// nothing is stored anywhere else. If there is no pool yet, files can always be stored in some way, and Info
// says why not in a better one.
func (p *Pool) Open() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened {
		return p.dir, nil
	}
	if p.fault != nil && time.Since(p.tried) < tryAgain {
		return "", p.fault
	}
	begin, before := time.Now(), p.reason
	err := p.open()
	p.tried = time.Now()
	if err != nil {
		p.reason = "unavailable: " + err.Error()
		if p.reason != before {
			p.o.Log.Printf("pool: %s is unavailable after %.1f ms: %v", p.kind, time.Since(begin).Seconds()*1e3, err)
		}
		p.fault = hostproto.Errorf(hostproto.Unavailable, "pool.unavailable", "the pool with the files of sandboxes and snapshots is not available: %v", err).
			WithHint(p.advice())
		return "", p.fault
	}
	p.opened, p.cleared, p.fault = true, false, nil
	p.o.Log.Printf("pool: %s in %.1f ms %s", p.kind, time.Since(begin).Seconds()*1e3, p.reason)
	return p.dir, nil
}

// open decides by what exists.
//
// INVARIANT: if a pool of one kind exists, no other kind is used beside it: the files in the first would seem
// to be lost.
func (p *Pool) open() error {
	p.dir, p.reason = "", ""
	if _, err := os.Lstat(p.imagePath()); !errors.Is(err, os.ErrNotExist) {
		p.kind = Loop
		if err != nil {
			return err
		}
		return p.openLoop()
	}
	taken, err := hasEntries(p.ownDir())
	if err != nil || taken {
		p.kind = Btrfs
		if err != nil {
			return err
		}
		return p.openBtrfs()
	}
	p.kind = Btrfs
	noBtrfs := p.openBtrfs()
	if noBtrfs == nil {
		return nil
	}
	p.kind = Loop
	if err = p.openLoop(); err == nil {
		return nil
	}
	p.kind, p.reason = Copy, err.Error()
	if !errors.Is(noBtrfs, errNotBtrfs) {
		p.reason = noBtrfs.Error()
	}
	return nil
}

// ownDir is the pool of a state directory on btrfs.
func (p *Pool) ownDir() string { return filepath.Join(p.o.Home, "pool") }

// hasEntries reports whether the areas of dir contain anything.
func hasEntries(dir string) (bool, error) {
	for _, area := range areas {
		entries, err := os.ReadDir(filepath.Join(dir, string(area)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		if len(entries) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// advice is how to repair a pool that cannot be used.
func (p *Pool) advice() string {
	if p.kind == Btrfs {
		return "the pool of the state directory was made on btrfs: move the state directory to a btrfs on which this user may make and delete subvolumes"
	}
	return "no files are lost: free loop devices or memory, or use a kernel that can mount the pool, and try again; to begin with an empty pool instead, stop podhost and move " +
		p.imagePath() + " away"
}

// volumes is the directory of the subvolumes.
func (p *Pool) volumes() (string, error) {
	dir, err := p.Open()
	if err == nil && dir == "" {
		err = hostproto.Errorf(hostproto.Unavailable, "pool.unavailable", "the pool with these files does not exist").
			WithHint("restore the pool in the state directory and start podhost again, or destroy the sandboxes and snapshots in it")
	}
	return dir, err
}

// Prepare opens the pool before its first use, unless it was just removed: the client that removed it may be
// removing the state directory, too.
func (p *Pool) Prepare() {
	p.mu.Lock()
	cleared := p.cleared
	p.mu.Unlock()
	if !cleared {
		p.Open()
	}
}

var errNotBtrfs = errors.New("the state directory is not on btrfs")

// openBtrfs uses the file system of the state directory, if this user may do there what a pool needs.
func (p *Pool) openBtrfs() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(p.o.Home, &fs); err != nil {
		return err
	}
	if fs.Type != btrfsMagic {
		return errNotBtrfs
	}
	dir := p.ownDir()
	if err := makeAreas(dir); err != nil {
		return err
	}
	fd, err := openDir(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := trySubvolumes(fd); err != nil {
		return fmt.Errorf("the state directory is on btrfs, but %w", err)
	}
	if err := p.quotas.find(fd, false); err != nil {
		p.reason = "no disk limits: " + err.Error()
	}
	p.dir = dir
	return nil
}

// trySubvolumes makes, copies and deletes a subvolume: ordinary users often may not delete one.
func trySubvolumes(dir int) error {
	const first, second = ".try-1", ".try-2"
	deleteSubvolume(dir, first)
	deleteSubvolume(dir, second)
	if err := createSubvolume(dir, first); err != nil {
		return err
	}
	source, err := openDirAt(dir, first)
	if err == nil {
		err = snapshotSubvolume(source, dir, second, true)
		unix.Close(source)
	}
	if err == nil {
		err = deleteSubvolume(dir, second)
	}
	if undo := deleteSubvolume(dir, first); err == nil {
		err = undo
	}
	if err != nil {
		// An empty subvolume can be removed like a directory.
		unix.Unlinkat(dir, second, unix.AT_REMOVEDIR)
		unix.Unlinkat(dir, first, unix.AT_REMOVEDIR)
	}
	return err
}

func makeAreas(dir string) error {
	paths := []string{dir}
	for _, area := range areas {
		paths = append(paths, filepath.Join(dir, string(area)))
	}
	for _, path := range paths {
		if err := ignoreExist(os.Mkdir(path, 0o700)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o700)
}
