package files

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"agentpod/native/internal/connect"
)

// maxListed bounds one listing. A larger tree takes several calls.
const maxListed = 100_000

// Stat describes one path.
func Stat(name string) (Entry, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(name, info, newNamer()), nil
}

// List describes the entries below a directory, depth levels deep, in lexical order. It does not follow
// links.
func List(dir string, depth uint32) ([]Entry, error) {
	if err := requireDirectory(dir); err != nil {
		return nil, err
	}
	if depth == 0 {
		depth = 1
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	names := newNamer()
	err = filepath.WalkDir(root, func(name string, item fs.DirEntry, err error) error {
		if name == root {
			return err
		}
		if err != nil {
			return nil // a directory that the user may not read is listed but not entered
		}
		info, err := item.Info()
		if err != nil {
			return nil // removed meanwhile
		}
		if len(entries) >= maxListed {
			return connect.Errorf(connect.ResourceExhausted, "more than %d entries below %.200q", maxListed, dir)
		}
		below, _ := filepath.Rel(root, name)
		entry := entryOf(name, info, names)
		entry.Path = path.Join(dir, below)
		entries = append(entries, entry)
		if item.IsDir() && strings.Count(below, "/")+1 >= int(depth) {
			return fs.SkipDir
		}
		return nil
	})
	return entries, err
}

func requireDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = connect.Errorf(connect.InvalidArgument, "%.200q is not a directory", dir)
	}
	return err
}

// MakeDir makes a directory and its parents.
func MakeDir(dir string) (Entry, error) {
	if err := requireAbsent(dir); err != nil {
		return Entry{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Entry{}, err
	}
	return Stat(dir)
}

// Move renames, and makes the parents of the destination.
func Move(source, destination string) (Entry, error) {
	if _, err := os.Lstat(source); err != nil {
		return Entry{}, err
	}
	if err := os.MkdirAll(path.Dir(destination), 0o755); err != nil {
		return Entry{}, err
	}
	if err := os.Rename(source, destination); err != nil {
		return Entry{}, err
	}
	return Stat(destination)
}

// Remove removes a tree. Like envd, it succeeds if there is nothing to remove.
func Remove(name string) error {
	if name == "/" {
		return connect.Errorf(connect.InvalidArgument, "the root cannot be removed")
	}
	return os.RemoveAll(name)
}
