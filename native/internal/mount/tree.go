package mount

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Clone attaches a copy of source's mount at target, with the ids of its files shifted by the user namespace
// idmap (nil for none). The copy shares the page cache with the original.
func Clone(source, target string, idmap *os.File, attrs uint64) error {
	tree, err := detachedClone(source, idmap, attrs)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount %s: %w", target, err)
	}
	return nil
}

// CloneAt is Clone for a target that is an open directory.
func CloneAt(source string, target int, idmap *os.File, attrs uint64) error {
	tree, err := detachedClone(source, idmap, attrs)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount of %s: %w", source, err)
	}
	return nil
}

// detachedClone returns a copy of source's mount that is not attached anywhere yet.
func detachedClone(source string, idmap *os.File, attrs uint64) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("open_tree %s: %w", source, err)
	}
	return shifted(tree, source, idmap, attrs)
}

// FileFor returns a mount of one open file that is not attached anywhere yet. What belongs to root belongs to
// the user of idmap there (NewOwner).
func FileFor(file, idmap *os.File, attrs uint64) (*os.File, error) {
	tree, err := unix.OpenTree(int(file.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("open_tree %s: %w", file.Name(), err)
	}
	if tree, err = shifted(tree, file.Name(), idmap, attrs); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), file.Name()), nil
}

// shifted gives a detached mount its attributes. It closes it if that fails.
func shifted(tree int, source string, idmap *os.File, attrs uint64) (int, error) {
	attr := unix.MountAttr{Attr_set: attrs, Propagation: unix.MS_PRIVATE}
	if idmap != nil {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(idmap.Fd())
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("mount_setattr %s: %w", source, err)
	}
	return tree, nil
}

// Overlay describes one overlay mount; Lower is topmost first. Without Upper it is read-only.
type Overlay struct {
	Lower     []string
	Upper     string
	Work      string
	UserXattr bool
	// NoSetuid: programs in it never change their user.
	NoSetuid bool
}

// Mount mounts the overlay at target. Redirects and metadata-only copies stay off, so that an upper means the
// same when it becomes a layer under something else.
func (o Overlay) Mount(target string) error {
	options := []string{"lowerdir=" + strings.Join(o.Lower, ":")}
	flags := uintptr(unix.MS_NODEV)
	if o.Upper != "" {
		options = append(options, "upperdir="+o.Upper, "workdir="+o.Work)
	} else {
		flags |= unix.MS_RDONLY
	}
	if o.NoSetuid {
		flags |= unix.MS_NOSUID
	}
	if o.UserXattr {
		options = append(options, "userxattr")
	} else {
		options = append(options, "redirect_dir=off", "metacopy=off", "index=off")
	}
	data := strings.Join(options, ",")
	if len(data) >= os.Getpagesize() {
		return fmt.Errorf("overlay %s: options of %d bytes do not fit a page", target, len(data))
	}
	if err := unix.Mount("overlay", target, "overlay", flags, data); err != nil {
		return fmt.Errorf("overlay %s: %w", target, err)
	}
	return nil
}

// Detach removes the tree at path from this namespace; namespaces that have a copy keep theirs. It succeeds
// if nothing is mounted.
func Detach(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == unix.EINVAL || err == unix.ENOENT {
		return nil
	}
	return err
}
