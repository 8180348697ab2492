package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Stage is a tmpfs in podhost's own mount namespace that holds every mount of podhost. Its paths are short,
// which keeps overlay options within a page. Any user may walk them, because the runtime sets up a sandbox's
// root with the sandbox's own ids, which cannot enter the state directory. Nothing of it exists in the host's
// namespace, so it does not outlive podhost and the sandboxes.
type Stage struct {
	dir     string
	mu      sync.Mutex
	lowers  map[string]string
	next    int
	shifted bool
}

// NewStage mounts the stage. shifted says whether mounts can shift ids here. keep names directories that must
// stay visible.
func NewStage(shifted bool, keep []string) (*Stage, error) {
	dir, err := stagePoint(keep)
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("agentpod", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=48m"); err != nil {
		return nil, fmt.Errorf("stage %s: %w", dir, err)
	}
	for _, name := range []string{"lower", "root", "file", "empty", "pool", "points", "points/root", "slot", "run"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	return &Stage{dir: dir, lowers: map[string]string{}, shifted: shifted}, nil
}

// stagePoint finds a directory that every host has and podhost does not need. It cannot be in /proc or /sys:
// a mount over a part of these forbids a sandbox's user namespace to mount its own.
func stagePoint(keep []string) (string, error) {
	for _, dir := range []string{"/mnt", "/media", "/srv", "/dev/shm"} {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		free := true
		for _, path := range keep {
			free = free && path != dir && !strings.HasPrefix(path, dir+"/")
		}
		if free {
			return dir, nil
		}
	}
	return "", fmt.Errorf("none of /mnt, /media, /srv and /dev/shm is a directory that can be mounted over")
}

// Lower returns a path under which source can be the lower directory of an overlay, with the ids that it has.
// It mounts each source once.
func (s *Stage) Lower(source string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path, there := s.lowers[source]; there {
		return path, nil
	}
	s.next++
	path := filepath.Join(s.dir, "lower", fmt.Sprint(s.next))
	if err := os.Mkdir(path, 0o755); err != nil {
		return "", err
	}
	if err := Clone(source, path, nil, unix.MOUNT_ATTR_NODEV); err != nil {
		os.Remove(path)
		return "", err
	}
	s.lowers[source] = path
	return path, nil
}

// Forget drops the lower mount of source, so that its directory can be removed or replaced.
func (s *Stage) Forget(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path, there := s.lowers[source]; there {
		Detach(path)
		os.Remove(path)
		delete(s.lowers, source)
	}
}

// Empty is an empty directory.
func (s *Stage) Empty() string { return filepath.Join(s.dir, "empty") }

// Pool is the mount point of the pool.
func (s *Stage) Pool() string { return filepath.Join(s.dir, "pool") }

// Shifted reports whether mounts show the state directory's trees with a sandbox's ids.
func (s *Stage) Shifted() bool { return s.shifted }

// Root makes the mount point of one sandbox's root, and of the parts it is assembled from. All of it is below
// one mount, so that ReleaseRoot unmounts it in one step; every step takes equally long.
func (s *Stage) Root(id string) (string, *Shifts, error) {
	path := filepath.Join(s.dir, "root", id)
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return "", nil, err
	}
	if err := Clone(filepath.Join(s.dir, "points"), path, nil, 0); err != nil {
		return "", nil, err
	}
	return filepath.Join(path, "root"), &Shifts{dir: path, mounts: map[shiftKey]*shift{}}, nil
}

// Shifts returns where more can be mounted with the ids of a sandbox whose root is mounted.
func (s *Stage) Shifts(id string) *Shifts {
	return &Shifts{dir: filepath.Join(s.dir, "root", id), mounts: map[shiftKey]*shift{}}
}

// ReleaseRoot removes a sandbox's tree from podhost's namespace. A running sandbox keeps its own.
func (s *Stage) ReleaseRoot(id string) {
	path := filepath.Join(s.dir, "root", id)
	Detach(path)
	os.Remove(path)
}

// File makes a small file that can be the source of a sandbox's mount.
func (s *Stage) File(name string, data []byte, mode os.FileMode) (string, error) {
	path := filepath.Join(s.dir, "file", name)
	if err := os.WriteFile(path, data, mode); err != nil {
		return "", err
	}
	return path, os.Chmod(path, mode)
}

// RemoveFile removes the name; a mount made from it stays.
func (s *Stage) RemoveFile(name string) { os.Remove(filepath.Join(s.dir, "file", name)) }

// Bind attaches source read-only at a file or directory of the same kind.
func (s *Stage) Bind(source, target string) error {
	return Clone(source, target, nil, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}
