package mount

import (
	"fmt"
	"os"
	"runtime"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// NewRoot is the directory of a blank root where Swap attaches the new root for a moment.
const NewRoot = "/new"

// A Swap gives a running sandbox another root. podhost has checked everything in it; programs inside cannot
// influence it.
type Swap struct {
	// Pid is the sandbox's first process, whose root is the root of its mount namespace.
	Pid int
	// Root is the new root, mounted in podhost's namespace with all that is mounted below it.
	Root string
	// Keep are mount points of the blank root that move to the same path of the new one, with the mounts
	// below them.
	Keep []string
	// Hostname becomes the sandbox's host name.
	Hostname string
	// Sizes are the sizes in bytes of the temporary file systems at these paths. 0 keeps the kernel's default
	// of half of the memory.
	Sizes map[string]int64
}

// Do swaps. If it fails, the sandbox has either root and must not be used.
func (s Swap) Do() error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, s.Root, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", s.Root, err)
	}
	defer unix.Close(tree)
	namespaces := map[int]*os.File{}
	for flag, name := range map[int]string{unix.CLONE_NEWNS: "mnt", unix.CLONE_NEWUTS: "uts"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", s.Pid, name))
		if err != nil {
			return err
		}
		defer file.Close()
		namespaces[flag] = file
	}
	done := make(chan error)
	go func() {
		// The thread enters the sandbox and never comes back: without an unlock it ends with its goroutine.
		runtime.LockOSThread()
		done <- s.inside(tree, namespaces)
	}()
	return <-done
}

func (s Swap) inside(tree int, namespaces map[int]*os.File) error {
	// A thread may enter a mount namespace only with its own root and working directory.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	for flag, file := range namespaces {
		if err := unix.Setns(int(file.Fd()), flag); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, NewRoot, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	for _, path := range s.Keep {
		if err := move(path); err != nil {
			return fmt.Errorf("move %s: %w", path, err)
		}
	}
	for path, bytes := range s.Sizes {
		if err := unix.Mount("tmpfs", NewRoot+path, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, sizeOption(bytes)); err != nil {
			return fmt.Errorf("resize %s: %w", path, err)
		}
	}
	return pivot()
}

// sizeOption never returns 0, which would mean no limit.
func sizeOption(bytes int64) string {
	if bytes == 0 {
		return "size=50%"
	}
	return fmt.Sprintf("size=%d", bytes)
}

// move moves the mount at path to the same path of the new root.
//
// SECURITY: FS-13. The new root may contain a user's files, so no symlink is followed on the way.
func move(path string) error {
	from, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	root, err := unix.Open(NewRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	to, err := safefs.OpenBeneath(root, path[1:], unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return unix.MoveMount(from, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// pivot puts the new root in the place of the old one for every process that uses the old one, and unmounts
// the old one.
func pivot() error {
	if err := unix.Chdir(NewRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return nil
}
