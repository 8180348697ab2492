package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

const (
	maxEntries   = 4_000_000
	maxTreeBytes = 1 << 40
	maxID        = 65535
	// entryBytes is about how much space an entry takes without its content.
	entryBytes = 4096
)

// extractor unpacks one archive below root. The kernel resolves every name beneath root and without symlinks.
//
// SECURITY: FS-05, FS-06, FS-07, SC-01. An earlier entry cannot redirect a later one.
type extractor struct {
	root   int
	layout Layout
	bytes  int64
	space  safefs.SpaceMeter
	// broken is the reason why the archive could not be read to its end.
	broken error
	// dirs get their times last, because each new entry in them changes the time.
	dirs []dirTime
}

type dirTime struct {
	name string
	at   time.Time
}

func newExtractor(root string, layout Layout, check safefs.SpaceCheck) (*extractor, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	x := &extractor{root: fd, layout: layout, space: safefs.SpaceMeter{Check: check}}
	if layout.IsUpper {
		return x, nil
	}
	return x, unix.Fchownat(fd, "", layout.Shift, layout.Shift, unix.AT_EMPTY_PATH)
}

func (x *extractor) close() { unix.Close(x.root) }

func invalid(format string, args ...any) *hostproto.Error {
	return hostproto.Errorf(hostproto.InvalidArgument, "layer.invalid", "tar: "+format, args...)
}

func (x *extractor) extract(content io.Reader) error {
	archive := tar.NewReader(content)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalid("%v", err)
		}
		if entries >= maxEntries {
			return invalid("more than %d entries", maxEntries)
		}
		if err := x.space.Took(entryBytes); err != nil {
			return err
		}
		if err := x.entry(header, archiveReader{archive}); err != nil {
			return entryError(header.Name, err)
		}
	}
	for i := len(x.dirs) - 1; i >= 0; i-- {
		if err := x.setTimes(x.dirs[i].name, x.dirs[i].at); err != nil {
			return entryError(x.dirs[i].name, err)
		}
	}
	return nil
}

// archiveReader marks errors inside the archive, so that they are not mistaken for errors of the tree.
type archiveReader struct{ io.Reader }

func (r archiveReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	var host *os.PathError
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &host) {
		err = invalid("%v", err)
	}
	return n, err
}

// entryError distinguishes a bad archive from a problem of the host.
func entryError(name string, err error) error {
	for _, bad := range []error{unix.ELOOP, unix.EXDEV, unix.ENOTDIR, unix.EISDIR, unix.EEXIST, unix.ENOENT, unix.ENAMETOOLONG, unix.EINVAL} {
		if errors.Is(err, bad) {
			return invalid("%q: %v", name, err)
		}
	}
	var known *hostproto.Error
	if errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("tar: %q: %w", name, err)
}

// clean refuses names that leave the tree. The kernel would refuse them too, with a less helpful message.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", invalid("a name contains a zero byte")
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", invalid("%q leads out of the tree", name)
		}
	}
	return path.Clean("/" + name)[1:], nil
}

func (x *extractor) entry(header *tar.Header, content io.Reader) error {
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	if header.Uid < 0 || header.Uid > maxID || header.Gid < 0 || header.Gid > maxID {
		return invalid("%q belongs to %d:%d, which is above the largest id %d", header.Name, header.Uid, header.Gid, maxID)
	}
	if header.Typeflag != tar.TypeXGlobalHeader {
		handle := x.layerEntry
		if x.layout.IsUpper {
			handle = x.upperEntry
		}
		if handled, err := handle(header, name); handled || err != nil {
			return err
		}
	}
	if name == "" {
		if header.Typeflag != tar.TypeDir {
			return invalid("the root is not a directory")
		}
		return x.finish(x.root, "", header)
	}
	parent, err := x.parent(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	last := path.Base(name)
	switch header.Typeflag {
	case tar.TypeDir:
		if err := x.directory(parent, last, 0o700); errors.Is(err, unix.EEXIST) {
			fd, err := safefs.OpenBeneath(parent, last, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			unix.Close(fd)
		} else if err != nil {
			return err
		}
		x.dirs = append(x.dirs, dirTime{name, header.ModTime})
	case tar.TypeReg:
		if err := x.file(parent, last, header, content); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := replace(parent, last, func() error { return unix.Symlinkat(header.Linkname, parent, last) }); err != nil {
			return err
		}
	case tar.TypeLink:
		return x.link(parent, last, header.Linkname)
	case tar.TypeFifo:
		if err := replace(parent, last, func() error { return unix.Mknodat(parent, last, unix.S_IFIFO|0o600, 0) }); err != nil {
			return err
		}
	case tar.TypeXGlobalHeader:
		return nil
	default:
		// A device would be one of the host's.
		return invalid("%q has type %q, which a layer cannot contain", header.Name, header.Typeflag)
	}
	return x.finish(parent, last, header)
}

// parent opens a directory of the tree. It makes the directory with default rights if the archive has not
// mentioned it yet.
func (x *extractor) parent(name string) (int, error) {
	if name == "." {
		return safefs.OpenBeneath(x.root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	fd, err := safefs.OpenBeneath(x.root, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return fd, err
	}
	above, err := x.parent(path.Dir(name))
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	if err := x.directory(above, path.Base(name), 0o755); err != nil {
		return -1, err
	}
	if err := unix.Fchownat(above, path.Base(name), x.layout.Shift, x.layout.Shift, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return safefs.OpenBeneath(above, path.Base(name), unix.O_PATH|unix.O_DIRECTORY, 0)
}

// replace makes an entry again if the archive has it twice; the last one counts.
func replace(parent int, name string, make func() error) error {
	err := make()
	if errors.Is(err, unix.EEXIST) {
		if err := unix.Unlinkat(parent, name, 0); err != nil {
			return err
		}
		return make()
	}
	return err
}

func (x *extractor) file(parent int, name string, header *tar.Header, content io.Reader) error {
	if x.bytes += header.Size; x.bytes > maxTreeBytes {
		return hostproto.Errorf(hostproto.ResourceExhausted, "layer.too_large", "the layer is larger than %d bytes", int64(maxTreeBytes))
	}
	fd := -1
	err := replace(parent, name, func() (err error) {
		fd, err = safefs.OpenBeneath(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	err = writeSparse(file, content, x.space.Took)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// link makes a hard link to an earlier entry. It opens the target beneath the root first, so that it links to
// what was checked.
func (x *extractor) link(parent int, name, target string) error {
	target, err := clean(target)
	if err != nil {
		return err
	}
	fd, err := safefs.OpenBeneath(x.root, target, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return replace(parent, name, func() error {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), parent, name, unix.AT_SYMLINK_FOLLOW)
	})
}
