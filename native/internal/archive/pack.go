package archive

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

// leftOutRecord is the record of a global header that names a skipped path: the reason, a newline and the
// path.
const leftOutRecord = "AGENTPOD.leftout"

// maxDepth bounds the directories that are open at the same time.
const maxDepth = 256

// Pack writes a directory's contents, or one file, as a tar stream, with the identity of the calling thread.
// It calls begin before the first byte. After an error later than that, the stream has no end.
func Pack(name string, begin func() io.Writer) error {
	// Only the name itself may be a link, because the caller asked for it.
	fd, err := openPlain(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return err
	}
	kind := stat.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG || isKernel(fd) {
		unix.Close(fd)
		return connect.Errorf(connect.InvalidArgument, "%.200q is neither a directory nor a regular file", name)
	}
	out := bufio.NewWriterSize(begin(), readAhead)
	p := packer{tar: tar.NewWriter(out), buffer: make([]byte, copyBuffer)}
	if kind == unix.S_IFDIR {
		err = p.directory(fd, "", 0)
	} else {
		err = p.file(fd, path.Base(name), &stat)
	}
	if err == nil {
		err = p.tar.Close()
	}
	if err == nil {
		err = out.Flush()
	}
	return err
}

type packer struct {
	tar    *tar.Writer
	buffer []byte
}

// directory packs the entries of an open directory and closes it.
func (p *packer) directory(fd int, prefix string, depth int) error {
	dir := os.NewFile(uintptr(fd), prefix)
	defer dir.Close()
	if isKernel(fd) {
		return nil
	}
	if depth > maxDepth {
		return p.leaveOut(prefix, fmt.Sprintf("what is in it is deeper than %d directories", maxDepth))
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	sort.Strings(names)
	for _, name := range names {
		if err := p.entry(fd, name, path.Join(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// leaveOut records in the stream what is missing from it, because an error would end the whole stream.
// Readers that do not know the record skip it.
func (p *packer) leaveOut(name, why string) error {
	if len(name) > unix.PathMax {
		name = name[:unix.PathMax]
	}
	return p.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{leftOutRecord: why + "\n" + name},
	})
}

// isKernel reports whether a directory shows the kernel's state, which is not part of a tree of files.
func isKernel(fd int) bool {
	var system unix.Statfs_t
	if unix.Fstatfs(fd, &system) != nil {
		return true
	}
	switch system.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return true
	}
	return false
}

// entry packs one name. It skips anything that is neither file, directory nor link, and files that disappear
// meanwhile.
func (p *packer) entry(parent int, base, name string, depth int) error {
	var stat unix.Stat_t
	err := unix.Fstatat(parent, base, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		n, err := unix.Readlinkat(parent, base, p.buffer[:unix.PathMax])
		if err != nil {
			return nil
		}
		return p.tar.WriteHeader(headerOf(name, tar.TypeSymlink, &stat, string(p.buffer[:n])))
	case unix.S_IFDIR, unix.S_IFREG:
	default:
		return nil
	}
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err == unix.EACCES || err == unix.EPERM {
		return p.leaveOut(name, "this user may not read it")
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(fd, name, &stat)
	case unix.S_IFDIR:
		if err := p.tar.WriteHeader(headerOf(name+"/", tar.TypeDir, &stat, "")); err != nil {
			unix.Close(fd)
			return err
		}
		return p.directory(fd, name, depth+1)
	}
	return unix.Close(fd)
}

// file packs an open file and closes it. A file that grows is cut at its first size; one that shrinks is an
// error.
func (p *packer) file(fd int, name string, stat *unix.Stat_t) error {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if err := p.tar.WriteHeader(headerOf(name, tar.TypeReg, stat, "")); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, io.LimitReader(file, stat.Size), p.buffer)
	if err == nil && n < stat.Size {
		err = connect.Errorf(connect.DataLoss, "%.200q shrank while it was read", name)
	}
	return err
}

func headerOf(name string, kind byte, stat *unix.Stat_t, link string) *tar.Header {
	header := &tar.Header{
		Typeflag: kind, Name: name, Linkname: link, Mode: int64(stat.Mode & 0o7777),
		Uid: int(stat.Uid), Gid: int(stat.Gid), ModTime: time.Unix(stat.Mtim.Sec, 0),
	}
	if kind == tar.TypeReg {
		header.Size = stat.Size
	}
	return header
}
