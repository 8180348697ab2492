package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Open opens the pool unless it is open, and returns where its areas are; "" for copies. It does not fail: there is always a way to keep
// files, and Info says why it is not a better one.
func (p *Pool) Open() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened {
		return p.dir
	}
	p.opened, p.cleared = true, false
	begin := time.Now()
	p.kind, p.dir, p.reason = Copy, "", ""
	if err := p.openBtrfs(); err == nil {
		p.kind = Btrfs
	} else if noLoop := p.openLoop(); noLoop == nil {
		p.kind = Loop
	} else {
		p.reason = noLoop.Error()
		if !errors.Is(err, errNotBtrfs) {
			p.reason = err.Error()
		}
	}
	p.o.Log.Printf("pool: %s in %.1f ms %s", p.kind, time.Since(begin).Seconds()*1e3, p.reason)
	return p.dir
}

// Prepare opens the pool ahead of its first use, unless it was just removed: whoever did that may be removing the home, too.
func (p *Pool) Prepare() {
	p.mu.Lock()
	cleared := p.cleared
	p.mu.Unlock()
	if !cleared {
		p.Open()
	}
}

var errNotBtrfs = errors.New("the state directory is not on btrfs")

// openBtrfs uses the file system that the home lies on, if this user may do there what a pool needs.
func (p *Pool) openBtrfs() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(p.o.Home, &fs); err != nil {
		return err
	}
	if fs.Type != btrfsMagic {
		return errNotBtrfs
	}
	dir := filepath.Join(p.o.Home, "pool")
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

// trySubvolumes makes, copies and deletes a subvolume: deleting one takes a right that ordinary users often lack.
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
		// An empty subvolume goes like a directory.
		unix.Unlinkat(dir, second, unix.AT_REMOVEDIR)
		unix.Unlinkat(dir, first, unix.AT_REMOVEDIR)
	}
	return err
}

func makeAreas(dir string) error {
	for _, path := range []string{dir, filepath.Join(dir, string(Sandboxes)), filepath.Join(dir, string(Snapshots))} {
		if err := ignoreExist(os.Mkdir(path, 0o700)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o700)
}
