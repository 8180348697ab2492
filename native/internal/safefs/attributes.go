package safefs

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// attributes are set in an order in which none undoes another: chown clears setuid bits and file
// capabilities.
func (c *copier) attributes(from, to string, stat *unix.Stat_t) error {
	if err := unix.Chown(to, int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	if err := unix.Chmod(to, stat.Mode&0o7777); err != nil {
		return err
	}
	names, err := c.attributeNames(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := attribute(from, name)
		if err == nil {
			err = unix.Setxattr(to, name, value, 0)
		}
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{stat.Atim, stat.Mtim}, 0)
}

func (c *copier) attributeNames(path string) ([]string, error) {
	n, err := unix.Listxattr(path, c.buffer)
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range bytes.Split(c.buffer[:n], []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, nil
}

func attribute(path, name string) ([]byte, error) {
	value := make([]byte, 64<<10)
	n, err := unix.Getxattr(path, name, value)
	if err != nil {
		return nil, err
	}
	return value[:n], nil
}

// special sets owner, mode and times of files that cannot be opened without side effects: links, pipes,
// whiteouts.
func (c *copier) special(name string, stat *unix.Stat_t) error {
	if err := unix.Fchownat(c.to, name, int(stat.Uid), int(stat.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		fd, err := unix.Openat(c.to, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		err = unix.Chmod(descriptorPath(fd), stat.Mode&0o7777)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(c.to, name, []unix.Timespec{stat.Atim, stat.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
