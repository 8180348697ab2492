// Package safefs works on directories that sandboxed code may have changed: it follows no symlink and never
// leaves the directory it was given.
package safefs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// RemoveTree removes parent/name and everything below it. It succeeds if the name does not exist. It holds
// one descriptor at any depth: a tree of ten thousand levels would use up the descriptors, and exceed
// PATH_MAX as a path.
//
// INVARIANT: no process writes to the tree any more, so ".." leads back to where the walk came from.
func RemoveTree(parent, name string) error {
	top, err := unix.Open(parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return &os.PathError{Op: "open", Path: parent, Err: err}
	}
	defer unix.Close(top)
	if err := removeAt(top, name); err != nil {
		return &os.PathError{Op: "remove", Path: parent + "/" + name, Err: err}
	}
	return nil
}

func removeAt(top int, name string) error {
	if done, err := unlink(top, name); done || err != nil {
		return err
	}
	dir, err := openDir(top, name)
	if err != nil {
		return err
	}
	path := []string{name}
	for len(path) > 0 {
		child, err := emptyUntilDir(dir)
		if err != nil {
			unix.Close(dir)
			return err
		}
		if child != "" {
			next, err := openDir(dir, child)
			unix.Close(dir)
			if err != nil {
				return err
			}
			dir, path = next, append(path, child)
			continue
		}
		last := path[len(path)-1]
		path = path[:len(path)-1]
		up := top
		if len(path) > 0 {
			if up, err = openDir(dir, ".."); err != nil {
				unix.Close(dir)
				return err
			}
		}
		unix.Close(dir)
		if err := unix.Unlinkat(up, last, unix.AT_REMOVEDIR); err != nil {
			if up != top {
				unix.Close(up)
			}
			return err
		}
		dir = up
	}
	return nil
}

// emptyUntilDir unlinks entries and returns the name of the first directory that is not empty, or "" if there
// is none.
func emptyUntilDir(dir int) (string, error) {
	buffer := make([]byte, 16<<10)
	for {
		if _, err := unix.Seek(dir, 0, 0); err != nil {
			return "", err
		}
		names, err := readNames(dir, buffer)
		if err != nil || len(names) == 0 {
			return "", err
		}
		for _, name := range names {
			done, err := unlink(dir, name)
			if err != nil {
				return "", err
			}
			if !done {
				return name, nil
			}
		}
	}
}

// readNames returns some names, and none only at the directory's end. A signal can interrupt a read, even
// after "." and ".." alone, and the Go scheduler sends signals to itself. So a read without names is not the
// end; a read without bytes is.
func readNames(dir int, buffer []byte) ([]string, error) {
	for {
		n, err := unix.Getdents(dir, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, err
		}
		if _, _, names := unix.ParseDirent(buffer[:n], -1, nil); len(names) > 0 {
			return names, nil
		}
	}
}

// unlink returns false for a directory that is not empty.
func unlink(dir int, name string) (bool, error) {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return false, nil
		}
	}
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	return err == nil, err
}

func openDir(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// maxLive bounds the descriptors of one RemoveLive: one for each level.
const maxLive = 512

// RemoveLive removes a name in an open directory while processes may still write to the tree. It succeeds if
// the name does not exist.
//
// SECURITY: FS-30. It never goes up by "..", which would lead elsewhere if somebody has moved the directory.
func RemoveLive(dir int, name string) error { return removeLive(dir, name, 0) }

func removeLive(dir int, name string, depth int) error {
	if done, err := unlink(dir, name); done || err != nil {
		return err
	}
	if depth >= maxLive {
		return unix.ENAMETOOLONG
	}
	below, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(below)
	for {
		child, err := emptyUntilDir(below)
		if err != nil {
			return err
		}
		if child == "" {
			break
		}
		if err := removeLive(below, child, depth+1); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
