package files

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
)

const (
	maxLinks = 40
	pathOnly = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// location is an open directory, and a name in it. Close it.
type location struct {
	dir  int
	name string
}

func (p location) Close() { unix.Close(p.dir) }

// walkOptions says how a path is walked.
type walkOptions struct {
	// make creates missing directories, and gives them to the user.
	make bool
	// follow also follows a link in the last location.
	follow bool
}

// walkAsRoot walks to a path's last name as root, for a user whose own rights were not enough.
//
// SECURITY: FS-30. It holds each directory open, and follows a link only if root or the user made it.
// Otherwise another user inside could choose what root writes. An existing directory keeps its owner.
func walkAsRoot(user *account.User, name string, how walkOptions) (location, error) {
	dir, err := unix.Open("/", pathOnly|unix.O_DIRECTORY, 0)
	if err != nil {
		return location{}, err
	}
	rest, links := parts(name), 0
	for {
		if len(rest) == 0 {
			unix.Close(dir)
			return location{}, connect.Errorf(connect.InvalidArgument, "%.200q is a system directory", name)
		}
		isLast := len(rest) == 1
		if isLast && !how.follow {
			return location{dir, rest[0]}, nil
		}
		next, target, err := step(dir, rest[0], user, how.make && !isLast)
		if isLast && target == "" {
			// The caller finds out what the last name is, and whether it exists.
			if err == nil {
				unix.Close(next)
			}
			if err == nil || err == unix.ENOENT {
				return location{dir, rest[0]}, nil
			}
		}
		if err == nil && target != "" {
			if links++; links > maxLinks {
				err = unix.ELOOP
			} else if path.IsAbs(target) {
				next, err = unix.Open("/", pathOnly|unix.O_DIRECTORY, 0)
			} else {
				next, err = unix.Openat(dir, ".", pathOnly|unix.O_DIRECTORY, 0)
			}
		}
		unix.Close(dir)
		if err != nil {
			return location{}, &os.PathError{Op: "open", Path: name, Err: err}
		}
		dir, rest = next, append(parts(target), rest[1:]...)
	}
}

func parts(name string) []string {
	return strings.FieldsFunc(name, func(c rune) bool { return c == '/' })
}

// step opens one name of a directory. For a link it returns the target.
func step(dir int, name string, user *account.User, mayMake bool) (next int, target string, err error) {
	fd, err := unix.Openat(dir, name, pathOnly, 0)
	if err == unix.ENOENT && mayMake {
		fd, err = makeDir(dir, name, user)
	}
	if err != nil {
		return -1, "", err
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err = readLink(fd, stat, user)
		unix.Close(fd)
		return -1, target, err
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	return fd, "", nil
}

func readLink(fd int, stat unix.Stat_t, user *account.User) (string, error) {
	if stat.Uid != 0 && int(stat.Uid) != user.UID {
		return "", unix.EACCES
	}
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buffer)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buffer[:n]), err
}

// makeDir makes a directory, gives it to the user and opens it. If another process makes it at the same
// moment, that directory is opened as it is.
func makeDir(dir int, name string, user *account.User) (int, error) {
	made := unix.Mkdirat(dir, name, 0o755)
	if made != nil && made != unix.EEXIST {
		return -1, made
	}
	fd, err := unix.Openat(dir, name, pathOnly|unix.O_DIRECTORY, 0)
	if err != nil || made != nil {
		return fd, err
	}
	var stat unix.Stat_t
	// A user who may write to the parent may have replaced it by another directory.
	if err = unix.Fstat(fd, &stat); err == nil && stat.Uid == 0 {
		err = unix.Fchownat(fd, "", user.UID, user.GID, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
