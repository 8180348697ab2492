package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
	"agentpod/native/internal/safefs"
)

// Actor is the user for whom a file operation acts. It first tries with the user's own rights. If these are
// not enough and Root is set, it acts as root, and the user owns what it makes. E2B's envd does the same.
type Actor struct {
	User *account.User
	Root bool
}

// reader is the user who reads directories: root can read all of them.
func (a Actor) reader() *account.User {
	if a.Root {
		return &account.User{Name: "root"}
	}
	return a.User
}

// do works as the user. If the user lacks permission and the actor may act as root, it works as root.
func (a Actor) do(work, asRoot func() error) error {
	err := a.User.As(work)
	if a.Root && a.User.UID != 0 && errors.Is(err, fs.ErrPermission) {
		return asRoot()
	}
	return err
}

// Stat describes one path.
func (a Actor) Stat(name string) (entry Entry, err error) {
	look := func() (err error) {
		entry, err = Stat(name)
		return err
	}
	err = a.do(look, look)
	return entry, err
}

// List describes the entries below a directory.
func (a Actor) List(dir string, depth uint32) (entries []Entry, err error) {
	err = a.reader().As(func() (err error) {
		entries, err = List(dir, depth)
		return err
	})
	return entries, err
}

// OpenRead opens a file to read it.
func (a Actor) OpenRead(name string) (source Source, err error) {
	open := func() (err error) {
		source, err = OpenRead(name)
		return err
	}
	err = a.do(open, open)
	return source, err
}

// MakeDir makes a directory and its parents.
func (a Actor) MakeDir(dir string) (entry Entry, err error) {
	err = a.do(func() (err error) {
		entry, err = MakeDir(dir)
		return err
	}, func() error {
		if err := requireAbsent(dir); err != nil {
			return err
		}
		at, err := walkAsRoot(a.User, dir, walkOptions{make: true})
		if err != nil {
			return err
		}
		defer at.Close()
		fd, err := makeDir(at.dir, at.name, a.User)
		if err != nil {
			return &os.PathError{Op: "mkdir", Path: dir, Err: err}
		}
		unix.Close(fd)
		entry, err = Stat(dir)
		return err
	})
	return entry, err
}

// Move renames, and makes the parents of the destination.
func (a Actor) Move(source, destination string) (entry Entry, err error) {
	err = a.do(func() (err error) {
		entry, err = Move(source, destination)
		return err
	}, func() error {
		from, err := walkAsRoot(a.User, source, walkOptions{})
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := walkAsRoot(a.User, destination, walkOptions{make: true})
		if err != nil {
			return err
		}
		defer to.Close()
		if err := unix.Renameat(from.dir, from.name, to.dir, to.name); err != nil {
			return &os.LinkError{Op: "rename", Old: source, New: destination, Err: err}
		}
		entry, err = Stat(destination)
		return err
	})
	return entry, err
}

// Remove removes a tree.
func (a Actor) Remove(name string) error {
	return a.do(func() error { return Remove(name) }, func() error {
		at, err := walkAsRoot(a.User, name, walkOptions{})
		if err != nil {
			return err
		}
		defer at.Close()
		if err := safefs.RemoveLive(at.dir, at.name); err != nil {
			return &os.PathError{Op: "remove", Path: name, Err: err}
		}
		return nil
	})
}

// OpenWrite creates a file, or empties an existing one, with its parents and exactly this metadata.
func (a Actor) OpenWrite(name string, metadata map[string]string) (file *os.File, err error) {
	err = a.do(func() (err error) {
		file, err = OpenWrite(name, metadata)
		return err
	}, func() (err error) {
		if file, err = a.openWriteAsRoot(name); err == nil {
			err = empty(file, metadata)
		}
		return err
	})
	return file, err
}

func (a Actor) openWriteAsRoot(name string) (*os.File, error) {
	at, err := walkAsRoot(a.User, name, walkOptions{make: true, follow: true})
	if err != nil {
		return nil, err
	}
	defer at.Close()
	const flags = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(at.dir, at.name, flags|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err == unix.EEXIST {
		fd, err = unix.Openat(at.dir, at.name, flags, 0)
	}
	if err == unix.ENXIO || err == unix.EISDIR {
		return nil, notRegular(name)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	file, err := admitWrite(fd, name)
	if err == nil {
		if err = a.giveToUser(fd); err != nil {
			file.Close()
		}
	}
	return file, err
}

// giveToUser makes the user the owner of an open file.
//
// SECURITY: FS-30. A file with several names may be one that the system needs under another name, so it keeps
// its owner.
func (a Actor) giveToUser(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Nlink != 1 || int(stat.Uid) == a.User.UID {
		return err
	}
	return unix.Fchown(fd, a.User.UID, a.User.GID)
}

// Watch starts to watch a directory.
func (a Actor) Watch(dir string, options WatchOptions) (*Watch, error) {
	return NewWatch(a.reader(), dir, options)
}

func requireAbsent(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	if info.IsDir() {
		return connect.Errorf(connect.AlreadyExists, "directory %.200q exists already", dir)
	}
	return connect.Errorf(connect.InvalidArgument, "%.200q exists and is not a directory", dir)
}
