package mount

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Slot makes a directory from which mounts spread to other namespaces. It contains the directory `point`.
// What Attach mounts on that appears in every namespace that has a copy of the slot.
func (s *Stage) Slot(name, point string) (string, error) {
	path := filepath.Join(s.dir, "slot", name)
	if err := os.MkdirAll(filepath.Join(path, point), 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("slot: %w", err)
	}
	if err := unix.Mount("", path, "", unix.MS_SHARED, ""); err != nil {
		return "", fmt.Errorf("share the slot: %w", err)
	}
	return path, nil
}

// Attach mounts a copy of the tree at root on the point of a slot.
func (s *Stage) Attach(name, point, root string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", root, err)
	}
	defer unix.Close(tree)
	target := filepath.Join(s.dir, "slot", name, point)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// ReleaseSlot removes the mounts of a slot from podhost's namespace. A sandbox keeps what it has of it, as
// long as the directory exists: the kernel unmounts what is mounted on a directory that is removed, in every
// namespace.
func (s *Stage) ReleaseSlot(name string) {
	path := filepath.Join(s.dir, "slot", name)
	// Otherwise the mounts would go in the sandbox too.
	unix.Mount("", path, "", unix.MS_REC|unix.MS_PRIVATE, "")
	Detach(path)
}

// RemoveSlot removes the slot of a sandbox that has ended.
func (s *Stage) RemoveSlot(name string) {
	s.ReleaseSlot(name)
	os.RemoveAll(filepath.Join(s.dir, "slot", name))
}

// Directory makes a directory of this name for the use of one run. Only podhost's user can enter it.
func (s *Stage) Directory(name string) (string, error) {
	path := filepath.Join(s.dir, "run", name)
	return path, os.MkdirAll(path, 0o700)
}

// RemoveDirectory removes it with all that it contains.
func (s *Stage) RemoveDirectory(name string) { os.RemoveAll(filepath.Join(s.dir, "run", name)) }

// Path is where the stage is mounted.
func (s *Stage) Path() string { return s.dir }
