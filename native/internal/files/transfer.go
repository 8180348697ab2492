package files

import (
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

// Source is a file to read. An unsized file reports a wrong size, or none: it is read until it ends.
type Source struct {
	*os.File
	Unsized bool
	fd      int
}

// Reader reads to the end. A kernel file that has no more data for now counts as ended, so that it cannot
// block a reader.
func (s Source) Reader() io.Reader {
	if s.Unsized {
		return kernelReader{s}
	}
	return s.File
}

// kernelReader reads the descriptor directly: os.File would wait for more.
type kernelReader struct{ source Source }

func (r kernelReader) Read(p []byte) (n int, err error) {
	for {
		n, err = unix.Read(r.source.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN || err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, &os.PathError{Op: "read", Path: r.source.Name(), Err: err}
		}
		return n, nil
	}
}

// OpenRead opens a regular file. A FIFO or a device would block or never end, so neither is read.
func OpenRead(name string) (Source, error) {
	fd, err := openRegular(name, unix.O_RDONLY, 0)
	if err != nil {
		return Source{}, err
	}
	kind, err := fileSystem(fd)
	if err == nil && kind == unix.PROC_SUPER_MAGIC {
		fd, err = admitProc(fd, name)
	}
	if err != nil {
		unix.Close(fd)
		return Source{}, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return Source{}, err
	}
	// Most kernel files report that they are empty, or as long as a page.
	isUnsized := isKernel(kind) || stat.Size == 0
	if !isUnsized {
		unix.SetNonblock(fd, false)
	}
	return Source{os.NewFile(uintptr(fd), name), isUnsized, fd}, nil
}

// OpenWrite creates a file, or empties an existing one, with its parents and exactly this metadata.
func OpenWrite(name string, metadata map[string]string) (*os.File, error) {
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	fd, err := openRegular(name, unix.O_WRONLY|unix.O_CREAT, 0o644)
	if err != nil {
		return nil, err
	}
	file, err := admitWrite(fd, name)
	if err == nil {
		err = empty(file, metadata)
	}
	return file, err
}

// empty leaves a file with only this metadata, or closes it.
func empty(file *os.File, metadata map[string]string) error {
	err := file.Truncate(0)
	if err == nil {
		err = replaceMetadata(int(file.Fd()), metadata)
	}
	if err != nil {
		file.Close()
	}
	return err
}

// admitWrite accepts the descriptor of a regular file that is not one of the kernel's.
func admitWrite(fd int, name string) (*os.File, error) {
	var stat unix.Stat_t
	kind, err := fileSystem(fd)
	if err != nil || isKernel(kind) || unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, notRegular(name)
	}
	unix.SetNonblock(fd, false)
	return os.NewFile(uintptr(fd), name), nil
}

// openRegular checks before it trusts: O_NONBLOCK keeps the open itself from waiting, and the file is emptied
// only after the check. It follows no magic link, such as those of /proc/PID/fd.
func openRegular(name string, flags int, mode uint32) (int, error) {
	flags |= unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if err == unix.ENOSYS {
		fd, err = unix.Open(name, flags, mode)
	}
	if err == unix.ENXIO || err == unix.EISDIR {
		return -1, notRegular(name)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, notRegular(name)
	}
	return fd, nil
}

func fileSystem(fd int) (int64, error) {
	var system unix.Statfs_t
	err := unix.Fstatfs(fd, &system)
	return int64(system.Type), err
}

func isKernel(kind int64) bool {
	switch kind {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC:
		return true
	}
	return false
}

// admitProc accepts a file of /proc, or opens it again through the directory of its process after it has
// checked that the process is not podd.
//
// SECURITY: FS-31. The kernel lets every thread of podd read podd: its memory, its environment, its
// descriptors. So nothing below a process is read before its owner is known, and it is read from the same
// directory that was checked.
func admitProc(fd int, name string) (int, error) {
	where, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || !strings.HasPrefix(where, "/proc/") {
		return fd, notRegular(name)
	}
	process, below := strings.TrimPrefix(where, "/proc/"), ""
	if cut := strings.IndexByte(process, '/'); cut >= 0 {
		process, below = process[:cut], process[cut+1:]
	}
	if _, err := strconv.Atoi(process); err != nil || strings.HasPrefix(below, "net/") {
		// It belongs to the whole system, or to the network, which podd shares with every process.
		return fd, nil
	}
	unix.Close(fd)
	dir, err := unix.Open("/proc/"+process, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(dir)
	if owner, err := groupOf(dir); err != nil || owner == os.Getpid() {
		return -1, &os.PathError{Op: "open", Path: name, Err: unix.EACCES}
	}
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	if fd, err = unix.Openat2(dir, below, &how); err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// groupOf returns the process that a thread belongs to, by its directory in /proc.
func groupOf(dir int) (int, error) {
	fd, err := unix.Openat(dir, "status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	text := make([]byte, 4096)
	n, err := unix.Read(fd, text)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text[:n]), "\n") {
		if value := strings.TrimPrefix(line, "Tgid:"); value != line {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, unix.EIO
}

func notRegular(name string) error {
	return connect.Errorf(connect.InvalidArgument, "%.200q is not a regular file", name)
}
