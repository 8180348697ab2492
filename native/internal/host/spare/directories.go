// Package spare keeps the directories of destroyed sandboxes for new ones. To make and remove files is slow
// on ext4: it searches for a free inode past all that were removed in the last minutes.
package spare

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

const (
	// most is how many directories are kept.
	most = 64
	// longest is the size of the longest record that is kept: it is erased in one write.
	longest = 4096
)

// Directories are below one parent, each with one file: a record without content. An earlier podhost may have
// left some, which Open removes.
type Directories struct {
	parent, record string

	mu    sync.Mutex
	names []string
}

// Open makes the parent, or empties it. record is the name of the file in each directory.
func Open(parent, record string) (*Directories, error) {
	if err := safefs.RemoveTree(filepath.Dir(parent), filepath.Base(parent)); err != nil {
		return nil, err
	}
	return &Directories{parent: parent, record: record}, os.Mkdir(parent, 0o700)
}

// Take moves a directory to path after write has written its record, so that there is never one without. It
// returns false if there is no directory to take, and os.ErrExist if path exists.
func (d *Directories) Take(path string, write func(record string) error) (taken bool, err error) {
	name := d.pop()
	if name == "" {
		return false, nil
	}
	from := filepath.Join(d.parent, name)
	if err = write(filepath.Join(from, d.record)); err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		return true, nil
	}
	if undo := safefs.RemoveTree(d.parent, name); undo != nil {
		return false, undo
	}
	if errors.Is(err, os.ErrExist) {
		return false, os.ErrExist
	}
	// Not every file system can rename like this. The caller makes a directory.
	return false, nil
}

// Keep takes over the directory name in parent, and reports whether it did. A directory with anything but a
// record is left where it is. After a kill at any point it is either there, with its record, or gone.
func (d *Directories) Keep(parent, name string) bool {
	if d.isFull() || !d.hasOnlyRecord(filepath.Join(parent, name)) {
		return false
	}
	kept := filepath.Join(d.parent, name)
	if os.Rename(filepath.Join(parent, name), kept) != nil {
		return false
	}
	if erase(filepath.Join(kept, d.record)) != nil {
		safefs.RemoveTree(d.parent, name)
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, name)
	return true
}

func (d *Directories) pop() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.names) - 1
	if last < 0 {
		return ""
	}
	name := d.names[last]
	d.names = d.names[:last]
	return name
}

func (d *Directories) isFull() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.names) >= most
}

func (d *Directories) hasOnlyRecord(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 1 && entries[0].Name() == d.record && entries[0].Type().IsRegular()
}

// erase replaces the content of a record by spaces. The file keeps its block.
func erase(record string) error {
	file, err := os.OpenFile(record, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > longest {
		return unix.EFBIG
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{' '}, int(info.Size())), 0)
	return err
}
