// Package kernelfs narrows the /sys and /proc of a sandbox to what programs inside need.
package kernelfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// sysShown is all of /sys that stays visible: the processors, the memory nodes, the size of huge pages
// (allocators and the Go runtime read it) and the sandbox's own network interfaces. The rest describes the
// host: its disks with the files behind them, its mounts and how full they are, its modules and devices.
//
// SECURITY: LK-17.
var sysShown = []string{
	"class/net", "devices/system/cpu", "devices/system/node", "devices/virtual/net", "kernel/mm/transparent_hugepage",
}

// procShown is all of /proc that stays visible beside the directories of processes. An entry that a newer
// kernel adds is covered until it is listed.
//
// SECURITY: LK-17, PR-09 and PR-12.
var procShown = map[string]bool{
	"cpuinfo": true, "filesystems": true, "loadavg": true, "meminfo": true, "stat": true, "sys": true, "sysvipc": true, "uptime": true,
	"version": true, "vmstat": true,
}

// Names below /sys that cover entries of /proc. Afterwards the file has no name any more.
const (
	emptyFile      = "/sys/empty"
	emptyDirectory = "/sys/fs/cgroup"
)

const hidden = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Narrow changes the mount namespace of its caller, which must be in a sandbox, before any payload runs.
func Narrow() error {
	if err := narrowSys(); err != nil {
		return fmt.Errorf("/sys: %w", err)
	}
	// A bind mount inherits read-only from its source.
	if err := remountSys(unix.MS_RDONLY); err != nil {
		return err
	}
	if err := narrowProc(); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := remountSys(0); err != nil {
		return err
	}
	if err := os.Remove(emptyFile); err != nil {
		return err
	}
	return remountSys(unix.MS_RDONLY)
}

func remountSys(flag uintptr) error {
	if err := unix.Mount("", "/sys", "", unix.MS_REMOUNT|unix.MS_BIND|hidden|flag, ""); err != nil {
		return fmt.Errorf("/sys: remount: %w", err)
	}
	return nil
}

// narrowSys replaces /sys by a small file system that has only what stays visible. It is still writable
// afterwards.
func narrowSys() error {
	kept := map[string]int{}
	for _, name := range sysShown {
		tree, err := clone("/sys/" + name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		defer unix.Close(tree)
		kept[name] = tree
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	if err := unix.Mount("tmpfs", "/sys", "tmpfs", hidden, "mode=755,size=64k,nr_inodes=64"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for name, tree := range kept {
		point := "/sys/" + name
		if err := os.MkdirAll(point, 0o755); err != nil {
			return err
		}
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, point, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("move_mount %s: %w", point, err)
		}
	}
	if err := os.MkdirAll(emptyDirectory, 0o755); err != nil {
		return err
	}
	return os.WriteFile(emptyFile, nil, 0o444)
}

// narrowProc covers every entry of /proc that is neither a process nor listed. A symlink leads to one that
// is.
func narrowProc() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if _, err := strconv.Atoi(name); err == nil || procShown[name] || entry.Type()&os.ModeSymlink != 0 {
			continue
		}
		source := emptyFile
		if entry.IsDir() {
			source = emptyDirectory
		}
		if err := unix.Mount(source, filepath.Join("/proc", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", name, err)
		}
	}
	return nil
}

// clone returns a read-only mount of path that is not attached yet.
func clone(path string) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("open_tree %s: %w", path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("mount_setattr %s: %w", path, err)
	}
	return tree, nil
}
