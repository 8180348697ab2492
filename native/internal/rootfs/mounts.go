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
	// From is the path in Root to mount; all of it if empty.
	From string
	// IsTmpfs: an empty temporary file system of this size; 0 is the kernel's default.
	IsTmpfs   bool
	SizeBytes int64
	// TakesOwner: a temporary file system has the owner and the mode of the directory that it covers.
	TakesOwner bool
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
		if m.From != "" {
			if err := b.mountPart(path, root, plan, m); err != nil {
				return fmt.Errorf("mount at %s: %w", m.Path, err)
			}
			continue
		}
		point, err := plan.volumePoint(root, m.Path)
		if err != nil {
			return err
		}
		switch {
		case m.IsTmpfs:
			err = mountTmpfs(point, plan, m)
		case m.Root == nil:
			err = b.mountVolume(point, plan, m)
		default:
			err = b.mountOtherRoot(point, plan, m)
		}
		unix.Close(point.fd)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Path, err)
		}
	}
	return nil
}

// engineData is where a container engine inside has its files.
const engineData = "/var/lib/docker"

// MountEngineData mounts a directory for the files of a container engine in the root of a plan, at `path` on
// the stage. It lies beside the upper of the root, so whatever copies a sandbox's files copies it too.
//
// The engine stacks overlays. The kernel refuses whiteouts on the overlay that is the root: containers could
// not remove a file of their image, and gVisor ends, with the sandbox, when one of them renames a file.
func (b *Builder) MountEngineData(path string, plan Plan) error {
	data := filepath.Join(plan.Data, "upper", upperName(engineData))
	err := os.Mkdir(data, 0o710)
	if err == nil {
		err = os.Lchown(data, b.Stored.Base, b.Stored.Base)
	}
	if err != nil && !os.IsExist(err) {
		return err
	}
	return b.MountInside(path, plan, []Mount{{Path: engineData, Data: data}})
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
	uid, gid, mode, err := plan.ownerOf(at)
	if err != nil {
		return err
	}
	if at.isMade {
		mode = 0o777
	}
	if err := os.Lchown(data, b.Stored.Base+uid, b.Stored.Base+gid); err != nil {
		return err
	}
	return unix.Chmod(data, mode)
}

// ownerOf returns the owner of a directory to mount on, in ids of the sandbox, and its mode. A directory of
// the host that belongs to no user inside is root's.
func (plan Plan) ownerOf(at point) (uid, gid int, mode uint32, err error) {
	var covered unix.Stat_t
	if err := unix.Fstatat(at.fd, "", &covered, unix.AT_EMPTY_PATH); err != nil {
		return 0, 0, 0, err
	}
	uid, gid = int(covered.Uid)-plan.IDs.Range.Base, int(covered.Gid)-plan.IDs.Range.Base
	if uid < 0 || gid < 0 || uid >= plan.IDs.Range.Count || gid >= plan.IDs.Range.Count {
		uid, gid = 0, 0
	}
	return uid, gid, covered.Mode & 0o1777, nil
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

// mountTmpfs mounts an empty file system that every user inside may write to, like /tmp; or one with the
// owner and the mode of the directory that it covers.
func mountTmpfs(at point, plan Plan, m Mount) error {
	target := fmt.Sprintf("/proc/self/fd/%d", at.fd)
	uid, gid, mode := 0, 0, uint32(0o1777)
	if m.TakesOwner {
		// The next start, and a copy of the sandbox, find the directory that this start has made.
		if at.isMade {
			if err := unix.Chmod(target, mode); err != nil {
				return err
			}
		}
		var err error
		if uid, gid, mode, err = plan.ownerOf(at); err != nil {
			return err
		}
	}
	base := plan.IDs.Range.Base
	data := fmt.Sprintf("mode=%o,uid=%d,gid=%d", mode, base+uid, base+gid)
	if m.SizeBytes > 0 {
		data += fmt.Sprintf(",size=%d", m.SizeBytes)
	}
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data)
}

// partPoint is where a root is mounted for a moment, to take a part of it. It is no part of any image.
const partPoint = "/.agentpod/build/part"

// mountPart mounts a directory or a file of another root. The whole root is mounted only while its part is
// looked up.
//
// SECURITY: FS-33. No link of the other root is followed, so the part is at this path or nowhere.
func (b *Builder) mountPart(path string, root int, plan Plan, m Mount) error {
	whole, err := plan.volumePoint(root, partPoint)
	if err != nil {
		return err
	}
	defer unix.Close(whole.fd)
	if err := b.mountOtherRoot(whole, plan, m); err != nil {
		return err
	}
	tree, isFile, err := takePart(path+partPoint, m.From)
	if undo := unix.Unmount(path+partPoint, unix.MNT_DETACH); err == nil {
		err = undo
	}
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	at, err := plan.partPoint(root, m.Path, isFile)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// takePart returns a mount of a path in a mounted root, and whether it is a file.
func takePart(whole, from string) (int, bool, error) {
	root, err := unix.Open(whole, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, false, err
	}
	defer unix.Close(root)
	part, err := safefs.OpenBeneath(root, strings.TrimPrefix(from, "/"), unix.O_PATH, 0)
	if err != nil {
		return -1, false, hostproto.Errorf(hostproto.InvalidArgument, "mount.from", "there is no %s to mount, or a symbolic link leads to it", from).
			WithHint("name the file or directory itself")
	}
	defer unix.Close(part)
	var stat unix.Stat_t
	if err := unix.Fstatat(part, "", &stat, unix.AT_EMPTY_PATH); err != nil {
		return -1, false, err
	}
	isFile := stat.Mode&unix.S_IFMT == unix.S_IFREG
	if !isFile && stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, false, hostproto.Errorf(hostproto.InvalidArgument, "mount.from", "%s cannot be mounted: it is no file and no directory", from)
	}
	tree, err := unix.OpenTree(part, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	return tree, isFile, err
}

// partPoint opens what a part is mounted on, and makes it if it is missing.
func (plan Plan) partPoint(root int, path string, isFile bool) (int, error) {
	if !isFile {
		at, err := plan.volumePoint(root, path)
		return at.fd, err
	}
	above := point{fd: -1}
	var err error
	if dir := filepath.Dir(path); dir == "/" {
		above.fd, err = safefs.OpenBeneath(root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	} else {
		above, err = plan.volumePoint(root, dir)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(above.fd)
	name := filepath.Base(path)
	at, err := safefs.OpenBeneath(above.fd, name, unix.O_PATH, 0)
	if errors.Is(err, unix.ENOENT) {
		made, fault := safefs.OpenBeneath(above.fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		if fault != nil {
			return -1, fault
		}
		fault = unix.Fchown(made, plan.IDs.Range.Base, plan.IDs.Range.Base)
		unix.Close(made)
		if fault != nil {
			return -1, fault
		}
		at, err = safefs.OpenBeneath(above.fd, name, unix.O_PATH, 0)
	}
	if err != nil {
		return -1, pointError(path, err)
	}
	return at, nil
}
