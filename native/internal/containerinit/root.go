package containerinit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentpod/native/internal/bundle"

	"golang.org/x/sys/unix"
)

// devices are bind mounts of the host's nodes, because a user namespace cannot make nodes. The OCI
// specification lists them.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// links are the symbolic links that the OCI specification asks for in /dev.
var links = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	"core": "/proc/kcore", "ptmx": "pts/ptmx",
}

// enterRoot mounts everything below the root and makes it the root of the process. The root is podhost's
// blank one: no other program can have written to it, so paths in it are safe to follow.
func enterRoot(config bundle.Config) error {
	root := config.Root.Path
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// pivot_root needs a mount.
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", root, err)
	}
	for _, one := range config.Mounts {
		if err := attach(root, one); err != nil {
			return fmt.Errorf("mount %s: %w", one.Destination, err)
		}
		if one.Destination == "/dev" {
			if err := fillDev(filepath.Join(root, "dev")); err != nil {
				return err
			}
		}
	}
	for _, path := range config.Linux.ReadonlyPaths {
		if err := makeReadonly(root + path); err != nil {
			return fmt.Errorf("make %s read-only: %w", path, err)
		}
	}
	return pivot(root)
}

// flags are the options of a mount that are not passed to the file system.
var flags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"strictatime": unix.MS_STRICTATIME, "bind": unix.MS_BIND,
}

// attach mounts one file system. Its mount point is made where it is below a temporary file system.
func attach(root string, m bundle.Mount) error {
	target := root + m.Destination
	var flag uintptr
	var data []string
	for _, option := range m.Options {
		if bit, known := flags[option]; known {
			flag |= bit
		} else {
			data = append(data, option)
		}
	}
	if flag&unix.MS_BIND != 0 {
		return bindAs(m.Source, target, flag)
	}
	if err := os.Mkdir(target, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return unix.Mount(m.Source, target, m.Type, flag, strings.Join(data, ","))
}

// bindAs sets the flags in a second step, because a bind mount takes over those of its source.
func bindAs(source, target string, flag uintptr) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|flag, "")
}

func fillDev(dev string) error {
	for _, name := range devices {
		target := filepath.Join(dev, name)
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := bindAs("/dev/"+name, target, unix.MS_NOSUID|unix.MS_NOEXEC); err != nil {
			return fmt.Errorf("bind /dev/%s: %w", name, err)
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// makeReadonly also keeps the mounts below path.
func makeReadonly(path string) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	const flag = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|flag, "")
}

// pivot makes root the root of every process in the mount namespace and unmounts the old one.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return unix.Chdir("/")
}
