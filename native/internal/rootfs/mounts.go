package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// A Mount is something to mount in a root that is mounted already.
type Mount struct {
	Path string
	// Data is the directory of a volume. It is stored with the ids of uppers.
	Data string
	// IsNew: nothing was written to the volume yet. It takes over the owner and the mode of what it covers.
	IsNew    bool
	ReadOnly bool
	// Root is another root, with the uppers of its snapshots in Over. It is nil for a volume.
	Root *hostproto.Root
	Over []string
}

// mountFlags hold for everything that is mounted besides the root. Programs of a volume or of another root
// never get more rights from their files than the program that starts them has.
const mountFlags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// MountInside mounts volumes and other roots in the root of a plan, at `path` on the stage. They are released
// with the root.
func (b *Builder) MountInside(path string, plan Plan, mounts []Mount) error {
	root, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, m := range mounts {
		point, err := plan.volumePoint(root, m.Path)
		if err != nil {
			return err
		}
		if m.Root == nil {
			err = b.mountVolume(point, plan, m)
		} else {
			err = b.mountOtherRoot(point, plan, m)
		}
		unix.Close(point.fd)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Path, err)
		}
	}
	return nil
}

// point is a directory of a root to mount on.
type point struct {
	fd int
	// isMade: it was missing, and has been made.
	isMade bool
}

// volumePoint opens the directory at a path inside a root. Missing directories are made, with the owner of
// the directory that they are in.
//
// SECURITY: FS-33. An image, or a program in an earlier run of the sandbox, may have put a link at the path
// or above it. No link is followed, so the mount is at this path inside the root or nowhere.
func (plan Plan) volumePoint(root int, path string) (point, error) {
	at, err := safefs.OpenBeneath(root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return point{}, err
	}
	found := point{fd: at}
	inside := ""
	for _, name := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		inside += "/" + name
		next, err := safefs.OpenBeneath(found.fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		isMade := errors.Is(err, unix.ENOENT)
		if isMade {
			next, err = makeLike(found.fd, name)
		}
		unix.Close(found.fd)
		if err != nil {
			return point{}, pointError(inside, err)
		}
		found = point{fd: next, isMade: isMade}
	}
	return found, nil
}

// makeLike makes a directory with the owner of the directory that it is in.
func makeLike(dir int, name string) (int, error) {
	var above unix.Stat_t
	if err := unix.Fstatat(dir, "", &above, unix.AT_EMPTY_PATH); err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return -1, err
	}
	if err := unix.Fchownat(dir, name, int(above.Uid), int(above.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return safefs.OpenBeneath(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
}

func pointError(inside string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EXDEV):
		return hostproto.Errorf(hostproto.InvalidArgument, "mount.path", "nothing can be mounted there: %s in the sandbox is a file or a symbolic link", inside).
			WithHint("mount at a path whose directories are plain directories, or do not exist")
	case errors.Is(err, unix.EROFS):
		return hostproto.Errorf(hostproto.FailedPrecondition, "mount.path", "the mount point %s does not exist, and the directory above it is read-only", inside).
			WithHint("mount at another path, such as /data")
	}
	return fmt.Errorf("mount point %s: %w", inside, err)
}

// mountVolume mounts a volume. Its files appear with the sandbox's ids.
func (b *Builder) mountVolume(at point, plan Plan, m Mount) error {
	if m.IsNew {
		if err := b.takeOver(at, plan, m.Data); err != nil {
			return err
		}
	}
	attrs := uint64(mountFlags)
	if m.ReadOnly {
		attrs |= unix.MOUNT_ATTR_RDONLY
	}
	return mount.CloneAt(m.Data, at.fd, plan.IDs.Stored, attrs)
}

// takeOver gives a new volume the owner and mode of the directory that it covers. If that was missing too,
// every user inside may write to the volume.
func (b *Builder) takeOver(at point, plan Plan, data string) error {
	var covered unix.Stat_t
	if err := unix.Fstatat(at.fd, "", &covered, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	uid, gid := int(covered.Uid)-plan.IDs.Range.Base, int(covered.Gid)-plan.IDs.Range.Base
	if uid < 0 || gid < 0 || uid >= plan.IDs.Range.Count || gid >= plan.IDs.Range.Count {
		// A directory of the host that belongs to nobody inside.
		uid, gid = 0, 0
	}
	mode := covered.Mode & 0o1777
	if at.isMade {
		mode = 0o777
	}
	if err := os.Lchown(data, b.Stored.Base+uid, b.Stored.Base+gid); err != nil {
		return err
	}
	return unix.Chmod(data, mode)
}

// mountOtherRoot mounts the layers and snapshots of another root, read-only.
func (b *Builder) mountOtherRoot(at point, plan Plan, m Mount) error {
	shifts := b.Stage.Shifts(plan.ID)
	defer shifts.Close()
	other := Plan{ID: plan.ID, IDs: plan.IDs, Root: *m.Root, Over: m.Over, shifts: shifts}
	below, err := other.snapshotLowers("/")
	if err != nil {
		return err
	}
	defer below.close()
	layers := m.Root.Layers
	for i := len(layers) - 1; i >= 0; i-- {
		if err := b.addOwn(&below, filepath.Join(b.Home, "layers", layers[i], "tree"), other); err != nil {
			if errors.Is(err, unix.ENOENT) {
				return hostproto.Errorf(hostproto.NotFound, "layer.absent", "there is no layer %s", layers[i])
			}
			return err
		}
	}
	// An overlay without an upper needs two directories.
	below.add(b.Stage.Empty())
	target := fmt.Sprintf("/proc/self/fd/%d", at.fd)
	return mount.Overlay{Lower: below.paths, UserXattr: b.Rootless, NoSetuid: true}.Mount(target)
}
