package files

import (
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

// OpenRead opens a regular file. A FIFO or a device would block or never end, so neither is read.
func OpenRead(name string) (*os.File, error) {
	return openRegular(name, unix.O_RDONLY, 0)
}

// OpenWrite makes a file, or empties the one there, with its parents and exactly this metadata.
func OpenWrite(name string, metadata map[string]string) (*os.File, error) {
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	file, err := openRegular(name, unix.O_WRONLY|unix.O_CREAT, 0o644)
	if err != nil {
		return nil, err
	}
	if err = file.Truncate(0); err == nil {
		err = replaceMetadata(int(file.Fd()), metadata)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openRegular looks before it trusts: O_NONBLOCK keeps the open itself from waiting, and a file is emptied only after
// the look.
//
// SECURITY: /proc as podd sees it is podd's own: its memory, its environment, its descriptors. None of it is a file to
// move, and no link of it is followed.
func openRegular(name string, flags int, mode uint32) (*os.File, error) {
	flags |= unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if err == unix.ENOSYS {
		fd, err = unix.Open(name, flags, mode)
	}
	if err == unix.ENXIO || err == unix.EISDIR {
		return nil, notRegular(name)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var stat unix.Stat_t
	var system unix.Statfs_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG ||
		unix.Fstatfs(fd, &system) != nil || system.Type == unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return nil, notRegular(name)
	}
	unix.SetNonblock(fd, false)
	return os.NewFile(uintptr(fd), name), nil
}

func notRegular(name string) error {
	return connect.Errorf(connect.InvalidArgument, "%.200q is not a regular file", name)
}
