package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// lowers are the lower directories of an overlay, topmost first.
type lowers struct {
	paths []string
	fds   []int
	// top is the directory of the topmost snapshot that has one, or nil.
	top *unix.Stat_t
}

// snapshotLowers opens what a plan's snapshots have of the directory covered. The caller closes it when the
// overlay is mounted. Each is reached through a descriptor, because 64 paths would not fit into the mount
// options. They show the sandbox's ids, as every upper does.
func (plan Plan) snapshotLowers(covered string) (found lowers, err error) {
	for i := len(plan.Over) - 1; i >= 0; i-- {
		path := filepath.Join(plan.Over[i], upperName(covered))
		if err := found.open(plan, path); err != nil {
			found.close()
			return lowers{}, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	return found, nil
}

// open adds a snapshot's upper if it exists and is not empty: each directory costs the kernel one more
// lookup.
func (l *lowers) open(plan Plan, path string) error {
	file, err := plan.openUpper(path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	fd := int(file.Fd())
	if l.top == nil {
		l.top = &unix.Stat_t{}
		err = unix.Fstat(fd, l.top)
	}
	isEmpty := false
	if err == nil {
		isEmpty, err = safefs.IsEmpty(fd)
	}
	if err != nil || isEmpty {
		return err
	}
	kept, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		l.addDescriptor(kept)
	}
	return err
}

func (l *lowers) close() {
	for _, fd := range l.fds {
		unix.Close(fd)
	}
	l.fds = nil
}

// addDescriptor is add for a directory that is reached through a descriptor, which close closes.
func (l *lowers) addDescriptor(fd int) {
	l.fds = append(l.fds, fd)
	l.add(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// add adds a directory below the others.
func (l *lowers) add(path string) { l.paths = append(l.paths, path) }

// likeTop gives a new upper the owner and mode of the topmost snapshot's, because the upper determines those
// of the merged directory.
func (l *lowers) likeTop(upper string) error {
	if l.top == nil {
		return nil
	}
	if err := os.Chown(upper, int(l.top.Uid), int(l.top.Gid)); err != nil {
		return err
	}
	return unix.Chmod(upper, l.top.Mode&0o7777)
}
