package layer

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path"
	"time"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// writeSparse leaves holes for zeros: a small archive of zeros then takes little space.
func writeSparse(file *os.File, content io.Reader, took func(int64) error) error {
	buffer := make([]byte, 64<<10)
	var size int64
	for {
		n, err := io.ReadFull(content, buffer)
		if isZero(buffer[:n]) {
			_, seek := file.Seek(int64(n), io.SeekCurrent)
			if seek != nil {
				return seek
			}
		} else if _, err := file.Write(buffer[:n]); err != nil {
			return err
		} else if err := took(int64(n)); err != nil {
			return err
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return file.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// finish sets owner, mode, attributes and time, in an order in which none undoes another: chown clears setuid
// bits and file capabilities.
func (x *extractor) finish(parent int, name string, header *tar.Header) error {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Fchownat(parent, name, x.layout.Shift+header.Uid, x.layout.Shift+header.Gid, flags); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeSymlink {
		return x.touch(parent, name, header.ModTime)
	}
	// chmod and setxattr do not work on a path descriptor itself; the magic link leads to exactly that file.
	fd := parent
	if name != "" {
		var err error
		if fd, err = safefs.OpenBeneath(parent, name, unix.O_PATH, 0); err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	self := descriptorPath(fd)
	if err := unix.Chmod(self, uint32(header.Mode)&0o7777); err != nil {
		return err
	}
	if err := x.attributes(self, header); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		return nil
	}
	return x.touch(parent, name, header.ModTime)
}

func (x *extractor) setTimes(name string, at time.Time) error {
	parent, err := x.parent(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return x.touch(parent, path.Base(name), at)
}

func (x *extractor) touch(parent int, name string, at time.Time) error {
	stamp := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(parent, name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
}
