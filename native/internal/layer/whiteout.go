package layer

import (
	"archive/tar"
	"errors"
	"path"
	"strings"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// layerEntry handles the entries of a layer that are no files of it: whiteouts, as the OCI specification
// defines them, and devices in /dev. handled means that the entry needs nothing more.
//
// SECURITY: FS-05, SC-01. A whiteout is made here, by its name, and is the only device.
func (x *extractor) layerEntry(header *tar.Header, name string) (handled bool, err error) {
	if (header.Typeflag == tar.TypeChar || header.Typeflag == tar.TypeBlock) && strings.HasPrefix(name, "dev/") {
		// A sandbox has a /dev of its own over that of its layers.
		return true, nil
	}
	if name == "" || !strings.HasPrefix(path.Base(name), whiteoutPrefix) {
		return false, nil
	}
	if header.Typeflag == tar.TypeLink && !strings.HasPrefix(path.Base(name), whiteoutPrefix+whiteoutPrefix) {
		// Some tools write whiteouts as links to one empty file.
		return true, x.whiteout(name)
	}
	if hidden := strings.TrimPrefix(path.Base(name), whiteoutPrefix); strings.HasPrefix(hidden, whiteoutPrefix) && hidden != opaqueMark[len(whiteoutPrefix):] {
		// Notes of the aufs file system, which no other file system reads.
		return true, nil
	}
	return true, x.whiteout(name)
}

// whiteout hides what lower layers have under a name, or in a whole directory. What this layer itself has
// there stays, in whichever order the archive lists the two.
func (x *extractor) whiteout(name string) error {
	parent, err := x.parent(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	base := path.Base(name)
	if base == opaqueMark {
		return x.makeOpaque(parent)
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteoutPrefix) {
		return invalid("%q is an unknown kind of whiteout", name)
	}
	err = unix.Mknodat(parent, hidden, unix.S_IFCHR, 0)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := safefs.OpenBeneath(parent, hidden, unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return x.makeOpaque(fd)
}

func (x *extractor) makeOpaque(directory int) error {
	return unix.Setxattr(descriptorPath(directory), x.layout.opaque(), []byte("y"), 0)
}

// directory makes a directory. One in place of a whiteout of the same archive hides the directories below it.
func (x *extractor) directory(parent int, name string, mode uint32) error {
	err := unix.Mkdirat(parent, name, mode)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var stat unix.Stat_t
	if failed := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); failed != nil || !isWhiteout(&stat) {
		return err
	}
	if err := unix.Unlinkat(parent, name, 0); err != nil {
		return err
	}
	if err := unix.Mkdirat(parent, name, mode); err != nil {
		return err
	}
	fd, err := safefs.OpenBeneath(parent, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return x.makeOpaque(fd)
}
