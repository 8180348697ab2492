package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

const (
	readAhead   = 256 << 10
	copyBuffer  = 128 << 10
	maxDeferred = 1 << 17
)

// Unpack reads a tar stream and makes its entries in dir, with the identity of the calling thread. It stops
// at the first bad entry; the entries before it stay.
func Unpack(dir string, source io.Reader, gzipped bool) error {
	meter := NewMeter(source)
	stream := io.Reader(bufio.NewReaderSize(meter, readAhead))
	if gzipped {
		unzipped, err := gzip.NewReader(stream)
		if err != nil {
			return connect.Errorf(connect.InvalidArgument, "the body is not valid gzip: %v", err)
		}
		stream = bufio.NewReaderSize(unzipped, copyBuffer)
	}
	target, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer target.close()
	u := unpacker{root: target, meter: meter, tar: tar.NewReader(stream), buffer: make([]byte, copyBuffer)}
	if err := u.run(); err != nil {
		return err
	}
	// The end of a tar stream is padded. The whole body must be read so that the connection can be used
	// again.
	_, err = io.Copy(io.Discard, io.LimitReader(stream, readAhead))
	return err
}

type unpacker struct {
	root   *root
	meter  *Meter
	tar    *tar.Reader
	buffer []byte
	dirs   []deferred
}

// deferred is a directory whose mode and time are set last: a read-only directory would refuse its own
// entries, and each new entry changes the time.
type deferred struct {
	name string
	mode uint32
	time time.Time
}

func (u *unpacker) run() error {
	for entries := 0; ; entries++ {
		header, err := u.tar.Next()
		if err == io.EOF {
			return u.finish()
		}
		if err != nil {
			return streamError(err)
		}
		if entries >= maxEntries {
			return connect.TooLarge("the archive has more than %d entries", maxEntries)
		}
		if err := u.entry(header); err != nil {
			return err
		}
	}
}

func streamError(err error) error {
	var known *connect.Error
	if errors.As(err, &known) {
		return known
	}
	return connect.Errorf(connect.InvalidArgument, "the archive cannot be parsed: %v", err)
}

func (u *unpacker) entry(header *tar.Header) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	// Each entry counts with its header, and a sparse file with its full size.
	if err := u.meter.Grow(header.Size + 512); err != nil {
		return err
	}
	name, err := checkName(header.Name)
	if err != nil || name == "" {
		return err
	}
	parent, base, err := u.root.enter(name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(parent, base, header)
	case tar.TypeDir:
		err = u.directory(parent, base, name, header)
	case tar.TypeSymlink:
		err = link(parent, base, header)
	case tar.TypeLink:
		err = u.hardLink(parent, base, header)
	default:
		return connect.Errorf(connect.InvalidArgument, "entry %.200q: type %q is not a file, directory or link", header.Name, header.Typeflag)
	}
	var known *connect.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return entryError(header.Name, err)
}

// permissions removes the bits that make a program run as another user.
func permissions(header *tar.Header) uint32 { return uint32(header.Mode) & 0o1777 }

func (u *unpacker) file(parent int, base string, header *tar.Header) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	mode, fd := permissions(header), -1
	err := replace(parent, base, func() (err error) {
		fd, err = unix.Openat(parent, base, flags, mode)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := u.copyTo(fd); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return setTime(parent, base, header.ModTime)
}

func (u *unpacker) copyTo(fd int) error {
	for {
		n, err := u.tar.Read(u.buffer)
		for data := u.buffer[:n]; len(data) > 0; {
			written, err := unix.Write(fd, data)
			if err != nil && err != unix.EINTR {
				return err
			}
			if written > 0 {
				data = data[written:]
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return streamError(err)
		}
	}
}

func (u *unpacker) directory(parent int, base, name string, header *tar.Header) error {
	err := unix.Mkdirat(parent, base, 0o755)
	if err == unix.EEXIST {
		var stat unix.Stat_t
		if err := unix.Fstatat(parent, base, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		err = nil
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			err = replace(parent, base, func() error { return unix.Mkdirat(parent, base, 0o755) })
		}
	}
	if err == nil && len(u.dirs) < maxDeferred {
		u.dirs = append(u.dirs, deferred{name, permissions(header), header.ModTime})
	}
	return err
}

func link(parent int, base string, header *tar.Header) error {
	if header.Linkname == "" || strings.IndexByte(header.Linkname, 0) >= 0 {
		return unix.EINVAL
	}
	err := replace(parent, base, func() error { return unix.Symlinkat(header.Linkname, parent, base) })
	if err != nil {
		return err
	}
	return setTime(parent, base, header.ModTime)
}

// hardLink links to a regular file below the root. Its target goes through the same checks as a name.
func (u *unpacker) hardLink(parent int, base string, header *tar.Header) error {
	target, err := checkName(header.Linkname)
	if err != nil {
		return err
	}
	// enter may close the directory that it returned before, so a duplicate keeps the link's own directory
	// open.
	parent, err = unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	from, fromBase, err := u.root.enter(target)
	if err != nil {
		return err
	}
	var stat, own unix.Stat_t
	if err := unix.Fstatat(from, fromBase, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return connect.Errorf(connect.InvalidArgument, "entry %.200q: the link does not lead to a file", header.Name)
	}
	if unix.Fstatat(parent, base, &own, unix.AT_SYMLINK_NOFOLLOW) == nil && own.Ino == stat.Ino && own.Dev == stat.Dev {
		return nil
	}
	return replace(parent, base, func() error { return unix.Linkat(from, fromBase, parent, base, 0) })
}

// finish sets what was deferred, from the last directory to the first, so that a parent's time is set after
// its children's.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		dir := u.dirs[i]
		parent, base, err := u.root.enter(dir.name)
		if err != nil {
			return err
		}
		fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
			continue // a later entry replaced it
		}
		if err != nil {
			return entryError(dir.name, err)
		}
		err = unix.Fchmod(fd, dir.mode)
		unix.Close(fd)
		if err == nil {
			err = setTime(parent, base, dir.time)
		}
		if err != nil {
			return entryError(dir.name, err)
		}
	}
	return nil
}

func setTime(parent int, base string, when time.Time) error {
	if when.IsZero() || when.Unix() < 0 {
		return nil
	}
	stamp := unix.NsecToTimespec(when.UnixNano())
	return unix.UtimesNanoAt(parent, base, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
}
