package mount

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ProbeShift mounts an overlay with shifted ids above and below, on the file system of dir, and checks the
// owners inside and on the disk.
func ProbeShift(dir string, stored Range) error {
	shown := Range{Base: stored.Base - stored.Count, Count: stored.Count}
	plain, err := idmapNamespace(shown.mapping())
	if err != nil {
		return err
	}
	defer plain.Close()
	idmap, err := NewIdmap(stored, shown)
	if err != nil {
		return err
	}
	defer idmap.Close()
	top, err := os.MkdirTemp(dir, "idmap-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	for _, name := range []string{"low", "low/shown", "high", "high/upper", "high/work", "lower", "data", "merged"} {
		if err := os.Mkdir(filepath.Join(top, name), 0o755); err != nil {
			return err
		}
	}
	for name, namespace := range map[string]*os.File{"low": plain, "high": idmap} {
		point := filepath.Join(top, map[string]string{"low": "lower", "high": "data"}[name])
		if err := Clone(filepath.Join(top, name), point, namespace, unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
		defer Detach(point)
	}
	return probeOwners(top, stored, shown)
}

func probeOwners(top string, stored, shown Range) error {
	merged, upper := filepath.Join(top, "merged"), filepath.Join(top, "high/upper")
	overlay := Overlay{Lower: []string{filepath.Join(top, "lower")}, Upper: filepath.Join(top, "data/upper"), Work: filepath.Join(top, "data/work")}
	if err := overlay.Mount(merged); err != nil {
		return err
	}
	defer Detach(merged)
	if err := os.Mkdir(filepath.Join(merged, "made"), 0o755); err != nil {
		return err
	}
	if err := os.Chown(filepath.Join(merged, "made"), shown.Base+1, shown.Base+1); err != nil {
		return err
	}
	for path, owner := range map[string]int{filepath.Join(merged, "shown"): shown.Base, filepath.Join(upper, "made"): stored.Base + 1} {
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return err
		}
		if int(stat.Uid) != owner || int(stat.Gid) != owner {
			return fmt.Errorf("a shifted owner is %d, not %d", stat.Uid, owner)
		}
	}
	return nil
}

// ProbeOverlay mounts an overlay with upper and lower in dir and reads through it.
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
