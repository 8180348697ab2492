package mount

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ProbeIdmap shifts a directory of the file system that dir is on, and looks whether the ids have moved.
func ProbeIdmap(dir string, namespace *os.File) error {
	point, err := os.MkdirTemp(dir, "idmap-")
	if err != nil {
		return err
	}
	defer os.Remove(point)
	if err := Clone(dir, point, namespace, unix.MOUNT_ATTR_NODEV); err != nil {
		return err
	}
	defer Detach(point)
	info, err := os.Stat(point)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid == uint32(os.Geteuid()) {
		return unix.EOPNOTSUPP
	}
	return nil
}

// ProbeOverlay mounts an overlay with upper and lower below dir and looks through it.
func ProbeOverlay(dir string, userXattr bool) error {
	top, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(top, name), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(top, "lower/file"), nil, 0o600); err != nil {
		return err
	}
	merged := filepath.Join(top, "merged")
	overlay := Overlay{Lower: []string{filepath.Join(top, "lower")}, Upper: filepath.Join(top, "upper"), Work: filepath.Join(top, "work"), UserXattr: userXattr}
	if err := overlay.Mount(merged); err != nil {
		return err
	}
	defer Detach(merged)
	return os.WriteFile(filepath.Join(merged, "file"), []byte("x"), 0o600)
}
