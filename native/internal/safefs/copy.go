package safefs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copier copies one tree: owners, modes, times, extended attributes, hard links, symlinks, pipes and
// whiteouts. It follows no links.
type copier struct {
	// links maps a file with several names to its first copy.
	links map[inode]string
	// root is the top of the copy, from which hard links are found.
	root int
	// from and to are the directories being copied. Those above are closed meanwhile and found again by "..":
	// a tree of ten thousand levels would use up the descriptors.
	from, to int
	buffer   []byte
	// noClone is set once the file systems cannot share blocks.
	noClone bool
	space   SpaceMeter
}

// entryBytes is about how much space an entry takes without its content.
const entryBytes = 4096

type inode struct{ dev, ino uint64 }

// CopyTree copies the directory source to parent/name, which must not exist. Files share their blocks if the
// file system can. It calls check meanwhile.
//
// INVARIANT: no process writes to the tree meanwhile.
func CopyTree(source, parent, name string, check SpaceCheck) error {
	from, err := unix.Open(source, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: source, Err: err}
	}
	defer unix.Close(from)
	top, err := unix.Open(parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: parent, Err: err}
	}
	defer unix.Close(top)
	if err := unix.Mkdirat(top, name, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: parent + "/" + name, Err: err}
	}
	c := &copier{links: map[inode]string{}, buffer: make([]byte, 256<<10), space: SpaceMeter{Check: check}}
	if c.root, err = openDir(top, name); err != nil {
		return err
	}
	defer unix.Close(c.root)
	if c.to, err = openDir(top, name); err != nil {
		return err
	}
	if c.from, err = openDir(from, "."); err != nil {
		unix.Close(c.to)
		return err
	}
	err = c.directory("")
	unix.Close(c.from)
	unix.Close(c.to)
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	return nil
}

// directory copies the content of from to the new directory to, and then from's own attributes.
func (c *copier) directory(path string) error {
	names, err := Names(c.from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.entry(name, path+name); err != nil {
			return err
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(c.from, &stat); err != nil {
		return err
	}
	return c.attributes(descriptorPath(c.from), descriptorPath(c.to), &stat)
}

// IsEmpty reports whether an open directory is empty. It must be at its beginning.
func IsEmpty(dir int) (bool, error) {
	names, err := readNames(dir, make([]byte, 1<<10))
	return len(names) == 0, err
}

// Names lists an open directory, in its own order.
func Names(dir int) ([]string, error) {
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return nil, err
	}
	var all []string
	buffer := make([]byte, 32<<10)
	for {
		names, err := readNames(dir, buffer)
		if err != nil || len(names) == 0 {
			return all, err
		}
		all = append(all, names...)
	}
}

func (c *copier) entry(name, path string) error {
	err := c.copyEntry(name, path)
	if known := (*entryError)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &entryError{path, err}
}

// entryError names the innermost entry that could not be copied.
type entryError struct {
	path string
	err  error
}

func (e *entryError) Error() string { return fmt.Sprintf("%.200q: %v", e.path, e.err) }
func (e *entryError) Unwrap() error { return e.err }

func (c *copier) copyEntry(name, path string) error {
	if err := c.space.Took(entryBytes); err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(c.from, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := stat.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && stat.Nlink > 1 {
		key := inode{uint64(stat.Dev), stat.Ino}
		if first, there := c.links[key]; there {
			err := unix.Linkat(c.root, first, c.to, name, 0)
			if !errors.Is(err, unix.ENAMETOOLONG) {
				return err
			}
		}
		c.links[key] = path
	}
	switch kind {
	case unix.S_IFDIR:
		return c.subdirectory(name, path)
	case unix.S_IFREG:
		return c.file(name, &stat)
	case unix.S_IFLNK:
		n, err := unix.Readlinkat(c.from, name, c.buffer)
		if err == nil {
			err = unix.Symlinkat(string(c.buffer[:n]), c.to, name)
		}
		if err != nil {
			return err
		}
		return c.special(name, &stat)
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR:
		// A whiteout is the only device in a sandbox's files.
		if kind != unix.S_IFCHR || stat.Rdev == 0 {
			if err := unix.Mknodat(c.to, name, stat.Mode, 0); err != nil {
				return err
			}
			return c.special(name, &stat)
		}
	}
	return errors.New("a device cannot be part of a sandbox's files")
}

func (c *copier) subdirectory(name, path string) error {
	if err := unix.Mkdirat(c.to, name, 0o700); err != nil {
		return err
	}
	if err := c.step(name); err != nil {
		return err
	}
	if err := c.directory(path + "/"); err != nil {
		return err
	}
	return c.step("..")
}

// step moves both sides to the directory name.
func (c *copier) step(name string) error {
	from, err := openDir(c.from, name)
	if err != nil {
		return err
	}
	to, err := openDir(c.to, name)
	if err != nil {
		unix.Close(from)
		return err
	}
	unix.Close(c.from)
	unix.Close(c.to)
	c.from, c.to = from, to
	return nil
}

func (c *copier) file(name string, stat *unix.Stat_t) error {
	in, err := unix.Openat(c.from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	source := os.NewFile(uintptr(in), name)
	defer source.Close()
	out, err := unix.Openat(c.to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(out), name)
	err = c.content(source, target, stat.Size)
	if err == nil {
		err = c.attributes(descriptorPath(in), descriptorPath(out), stat)
	}
	if closed := target.Close(); err == nil {
		err = closed
	}
	return err
}

func (c *copier) content(source, target *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	if !c.noClone {
		if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
			return nil
		}
		c.noClone = true
	}
	// Holes stay holes: copying a sparse file of a terabyte writes a megabyte.
	var data int64
	for data < size {
		start, err := unix.Seek(int(source.Fd()), data, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(source.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := target.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(io.MultiWriter(&c.space, target), io.NewSectionReader(source, start, end-start), c.buffer); err != nil {
			return err
		}
		data = end
	}
	return target.Truncate(size)
}

func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
