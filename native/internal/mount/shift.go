package mount

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// ErrPlain: the ids of this file system cannot be shifted.
var ErrPlain = errors.New("this file system cannot be mounted with shifted ids")

// Shifts are file systems mounted with the ids of one sandbox, until its root is released. Its overlays keep
// their lower mounts. A mount shows the whole file system of a directory, so there are two or three of them,
// however many layers there are.
type Shifts struct {
	dir    string
	mounts map[shiftKey]*shift
}

type shiftKey struct {
	number uint64
	idmap  *os.File
}

// shift is the mount of a file system: what is below top appears below root. A nil root means that it cannot
// be shifted.
type shift struct {
	top  string
	root *os.File
}

// Open returns a descriptor of the directory source in a mount with ids shifted by idmap.
func (m *Shifts) Open(source string, idmap *os.File) (int, error) {
	path, err := realPath(source)
	if err != nil {
		return -1, err
	}
	number, err := mountNumber(path)
	if err != nil {
		return -1, err
	}
	key := shiftKey{number, idmap}
	if m.mounts[key] == nil {
		if m.mounts[key], err = m.attach(path, key); err != nil {
			return -1, err
		}
	}
	found := m.mounts[key]
	if found.root == nil {
		return -1, ErrPlain
	}
	rest, err := filepath.Rel(found.top, path)
	if err != nil {
		return -1, err
	}
	fd, err := safefs.OpenBeneath(int(found.root.Fd()), rest, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: source, Err: err}
	}
	return fd, nil
}

// attach mounts the file system of path.
func (m *Shifts) attach(path string, key shiftKey) (*shift, error) {
	top, err := mountRoot(path, key.number)
	if err != nil {
		return nil, err
	}
	// All sandboxes use the same directories as mount points, each with its own mounts.
	point := filepath.Join(m.dir, strconv.Itoa(len(m.mounts)))
	if err := os.Mkdir(point, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	err = Clone(top, point, key.idmap, unix.MOUNT_ATTR_NODEV)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		return &shift{}, nil
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenFile(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	return &shift{top, root}, err
}

// Close closes the descriptors; the mounts stay until the root is released.
func (m *Shifts) Close() {
	for _, one := range m.mounts {
		if one.root != nil {
			one.root.Close()
		}
	}
}

// realPath is the path of a directory after the links above it are resolved. The directory itself is not a
// link.
func realPath(dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// mountRoot finds the topmost directory above path that is in the same mount.
func mountRoot(path string, number uint64) (string, error) {
	top := path
	for top != "/" {
		if above, err := mountNumber(filepath.Dir(top)); err != nil || above != number {
			return top, err
		}
		top = filepath.Dir(top)
	}
	return top, nil
}

func mountNumber(path string) (uint64, error) {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &stat); err != nil {
		return 0, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return stat.Mnt_id, nil
}
