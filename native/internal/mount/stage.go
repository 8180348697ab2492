package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Stage is a tmpfs in podhost's own mount namespace, with every mount of podhost below it. Its paths are short, which keeps
// overlay options within a page, and any user may walk them: the runtime sets a sandbox's root up as the sandbox's own
// ids, which cannot enter the state directory. Nothing of it exists in the host's namespace, so nothing of it outlives
// podhost and the sandboxes.
type Stage struct {
	dir    string
	mu     sync.Mutex
	lowers map[string]lower
	next   int
	idmap  *os.File
}

// lower is a mounted lower directory; shifted says whether its ids are the sandboxes'.
type lower struct {
	path    string
	shifted bool
}

// NewStage mounts the stage. idmap (nil where idmapped mounts do not work) shifts lower directories into the sandboxes' range.
// keep names directories that must stay visible.
func NewStage(idmap *os.File, keep []string) (*Stage, error) {
	dir, err := stagePoint(keep)
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("agentpod", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=48m"); err != nil {
		return nil, fmt.Errorf("stage %s: %w", dir, err)
	}
	for _, name := range []string{"lower", "root", "file", "empty", "pool"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	return &Stage{dir: dir, lowers: map[string]lower{}, idmap: idmap}, nil
}

// stagePoint finds a directory that every host has and podhost does not need. Directories of /proc and /sys are no choice:
// a mount over part of either forbids a sandbox's user namespace to mount its own.
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

// Lower returns a path under which source can be an overlay's lower directory, mounted once per source, and whether its ids are
// shifted into the sandboxes' range. A file system that cannot do that is shown as it is.
func (s *Stage) Lower(source string) (path string, shifted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, there := s.lowers[source]; there {
		return l.path, l.shifted, nil
	}
	s.next++
	l := lower{path: filepath.Join(s.dir, "lower", fmt.Sprint(s.next)), shifted: s.idmap != nil}
	if err := os.Mkdir(l.path, 0o755); err != nil {
		return "", false, err
	}
	err = Clone(source, l.path, s.idmap, unix.MOUNT_ATTR_NODEV)
	if l.shifted && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)) {
		l.shifted = false
		err = Clone(source, l.path, nil, unix.MOUNT_ATTR_NODEV)
	}
	if err != nil {
		os.Remove(l.path)
		return "", false, err
	}
	s.lowers[source] = l
	return l.path, l.shifted, nil
}

// Forget drops source's lower mount, so that its directory can be removed or replaced.
func (s *Stage) Forget(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, there := s.lowers[source]; there {
		Detach(l.path)
		os.Remove(l.path)
		delete(s.lowers, source)
	}
}

// Empty is a directory with nothing in it.
func (s *Stage) Empty() string { return filepath.Join(s.dir, "empty") }

// Pool is where the pool may be mounted.
func (s *Stage) Pool() string { return filepath.Join(s.dir, "pool") }

// Shifted reports whether the state directory's trees appear with the sandboxes' ids when mounted.
func (s *Stage) Shifted() bool { return s.idmap != nil }

// Root makes the mount point of one sandbox's root.
func (s *Stage) Root(id string) (string, error) {
	path := filepath.Join(s.dir, "root", id)
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return "", err
	}
	return path, nil
}

// ReleaseRoot takes a sandbox's tree out of podhost's namespace. The sandbox, if it runs, keeps its own.
func (s *Stage) ReleaseRoot(id string) {
	path := filepath.Join(s.dir, "root", id)
	Detach(path)
	os.Remove(path)
}

// File makes a small file that a sandbox's mount can have as its source.
func (s *Stage) File(name string, data []byte, mode os.FileMode) (string, error) {
	path := filepath.Join(s.dir, "file", name)
	if err := os.WriteFile(path, data, mode); err != nil {
		return "", err
	}
	return path, os.Chmod(path, mode)
}

// RemoveFile drops the name; a mount made from it stays.
func (s *Stage) RemoveFile(name string) { os.Remove(filepath.Join(s.dir, "file", name)) }

// Bind attaches source read-only at a file or directory of the same kind.
func (s *Stage) Bind(source, target string) error {
	return Clone(source, target, nil, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}
