package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Folder is a directory that the program writes to. SECURITY: what is in it may change at any moment, so it
// is opened below the directory, without symbolic links, and its kind is checked once it is open.
type Folder struct{ dir *os.File }

// NewFolder makes a directory in memory, for a user, that is not mounted anywhere yet.
func NewFolder(uid int, bytes int64) (*Folder, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fd)
	for key, value := range map[string]string{"size": strconv.FormatInt(bytes, 10), "mode": "700", "uid": strconv.Itoa(uid), "gid": strconv.Itoa(uid)} {
		if err := unix.FsconfigSetString(fd, key, value); err != nil {
			return nil, fmt.Errorf("fsconfig %s: %w", key, err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return &Folder{os.NewFile(uintptr(mount), "folder")}, nil
}

// OpenFolder opens one that is there.
func OpenFolder(path string) (*Folder, error) {
	dir, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &Folder{dir}, nil
}

// File is the directory, for the program to inherit.
func (f *Folder) File() *os.File { return f.dir }

// Close closes it.
func (f *Folder) Close() { f.dir.Close() }

func (f *Folder) open(name string, flags int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat2(int(f.dir.Fd()), name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Dial connects to a socket.
func (f *Folder) Dial(ctx context.Context, name string) (net.Conn, error) {
	file, err := f.open(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := isKind(file, unix.S_IFSOCK); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
}

// Read returns the content of a file.
func (f *Folder) Read(name string, most int64) ([]byte, error) {
	file, err := f.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := isKind(file, unix.S_IFREG); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", name, most)
	}
	return data, err
}

// Write makes a file for a user. It fails if there is one.
func (f *Folder) Write(name string, uid int, content io.Reader) error {
	file, err := f.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Chown(uid, uid); err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return err
}

// Make makes an empty directory for a user.
func (f *Folder) Make(name string, uid int) error {
	if err := unix.Mkdirat(int(f.dir.Fd()), name, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return unix.Fchownat(int(f.dir.Fd()), name, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
}

// Remove removes a file, if it is there.
func (f *Folder) Remove(name string) error { return f.unlink(name, 0) }

// RemoveDir removes an empty directory, if it is there.
func (f *Folder) RemoveDir(name string) error { return f.unlink(name, unix.AT_REMOVEDIR) }

func (f *Folder) unlink(name string, flags int) error {
	err := unix.Unlinkat(int(f.dir.Fd()), name, flags)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// Sub returns a directory inside.
func (f *Folder) Sub(name string) (*Folder, error) {
	dir, err := f.open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Folder{dir}, nil
}

func isKind(file *os.File, kind uint32) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != kind {
		return fmt.Errorf("%s is of another kind", file.Name())
	}
	return nil
}
