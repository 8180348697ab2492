// Package archive moves trees in and out of the sandbox as tar streams.
package archive

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

const directoryFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW

// root is a directory in which entries are made. It opens nothing outside, whatever links there are inside.
//
// SECURITY: attack cases FS-09, FS-10 and SC-01; the kernel walks the path and refuses a symbolic link or a
// step up, so there is no moment between a check and a use.
type root struct {
	fd int
	// parent is the directory that was opened last. Archives name the files of one directory in a row.
	parent     int
	parentName string
	noOpenat2  bool
}

// openRoot opens a directory, which may be reached through links, and makes it if it does not exist.
func openRoot(dir string) (*root, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := openPlain(dir, flags)
	if err == unix.ENOENT {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		fd, err = openPlain(dir, flags)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &root{fd: fd, parent: -1}, nil
}

// openPlain follows all links except those of /proc.
//
// SECURITY: FS-02. A link into /proc/self/fd, opened by podd, is one of podd's own descriptors.
func openPlain(name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if err == unix.ENOSYS {
		return unix.Open(name, flags, 0)
	}
	return fd, err
}

func (r *root) close() {
	r.forgetParent()
	unix.Close(r.fd)
}

func (r *root) forgetParent() {
	if r.parent >= 0 {
		unix.Close(r.parent)
		r.parent = -1
	}
}

// enter returns the directory that holds name, and name's last part. It makes missing directories.
func (r *root) enter(name string) (fd int, base string, err error) {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	if dir == "" {
		return r.fd, base, nil
	}
	if r.parent >= 0 && r.parentName == dir {
		return r.parent, base, nil
	}
	if fd, err = r.beneath(dir); err == unix.ENOENT {
		fd, err = r.make(dir)
	}
	if err != nil {
		return -1, "", entryError(name, err)
	}
	r.forgetParent()
	r.parent, r.parentName = fd, dir
	return fd, base, nil
}

// beneath opens a directory that exists.
func (r *root) beneath(dir string) (int, error) {
	if !r.noOpenat2 {
		how := unix.OpenHow{Flags: directoryFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
		fd, err := unix.Openat2(r.fd, dir, &how)
		if err != unix.ENOSYS {
			return fd, err
		}
		r.noOpenat2 = true
	}
	return r.walk(dir, func(int, string) error { return nil })
}

func (r *root) make(dir string) (int, error) {
	return r.walk(dir, func(parent int, name string) error {
		if err := unix.Mkdirat(parent, name, 0o755); err != nil && err != unix.EEXIST {
			return err
		}
		return nil
	})
}

// walk goes down one component at a time.
func (r *root) walk(dir string, before func(parent int, name string) error) (int, error) {
	current := r.fd
	for _, name := range strings.Split(dir, "/") {
		err := before(current, name)
		next := -1
		if err == nil {
			next, err = unix.Openat(current, name, directoryFlags, 0)
		}
		if current != r.fd {
			unix.Close(current)
		}
		if err != nil {
			return -1, err
		}
		current = next
	}
	return current, nil
}

// replace runs make. If something is in the way it removes that and runs make again. It never removes a
// directory.
func replace(parent int, base string, create func() error) error {
	err := create()
	if err != unix.EEXIST {
		return err
	}
	if err := unix.Unlinkat(parent, base, 0); err != nil {
		return err
	}
	return create()
}

// checkName accepts a relative path without steps up and cleans it; "" is the root itself.
func checkName(name string) (string, error) {
	if len(name) > unix.PathMax-1 || strings.IndexByte(name, 0) >= 0 || strings.HasPrefix(name, "/") {
		return "", connect.Errorf(connect.InvalidArgument, "entry %.200q: the name is absolute, too long or contains a NUL byte", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", connect.Errorf(connect.InvalidArgument, "entry %.200q: the name contains ..", name)
		}
	}
	if name = path.Clean(name); name == "." {
		return "", nil
	}
	return name, nil
}

func entryError(name string, err error) error {
	if err == unix.ELOOP || err == unix.ENOTDIR || err == unix.EXDEV {
		return connect.Errorf(connect.InvalidArgument, "entry %.200q: its directory is a link or not a directory", name)
	}
	return &os.PathError{Op: "unpack", Path: name, Err: err}
}
