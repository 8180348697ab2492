package layer

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

const (
	whiteoutPrefix = ".wh."
	opaqueMark     = ".wh..wh..opq"
	// literalRecord marks a real file whose name looks like a whiteout's.
	literalRecord = "AGENTPOD.literal"
	xattrRecord   = "SCHILY.xattr."
	capability    = "security.capability"
	maxName       = 4000
)

// Written describes a file that was written.
type Written struct {
	Digest    string `json:"digest"`
	SizeBytes int64  `json:"sizeBytes"`
}

// WriteArchive packs the directory dir as a gzip tar into the file path, and replaces an existing file. The
// file exists only when it is complete. The same tree gives the same bytes. The caller serialises calls for
// one path.
func WriteArchive(path, dir string, layout Layout, check safefs.SpaceCheck) (Written, error) {
	// No file that a client can name begins with a dot.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Written{}, err
	}
	written, err := writeNew(temporary, dir, layout, check)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		return Written{}, err
	}
	return written, nil
}

func writeNew(path, dir string, layout Layout, check safefs.SpaceCheck) (Written, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return Written{}, err
	}
	sum, size := sha256.New(), &counter{}
	out := bufio.NewWriterSize(io.MultiWriter(&safefs.SpaceMeter{Check: check}, file, sum, size), 1<<20)
	zipped, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err == nil {
		err = packTree(zipped, dir, layout)
	}
	if err == nil {
		err = zipped.Close()
	}
	if err == nil {
		err = out.Flush()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Written{}, err
	}
	return Written{Digest: hex.EncodeToString(sum.Sum(nil)), SizeBytes: size.n}, nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// packer walks a tree that nobody writes to. It follows no links, and holds one directory open at any depth.
type packer struct {
	tar    *tar.Writer
	layout Layout
	dir    int
	links  map[uint64]string
	buffer []byte
}

func packTree(out io.Writer, dir string, layout Layout) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	p := &packer{tar: tar.NewWriter(out), layout: layout, dir: fd, links: map[uint64]string{}, buffer: make([]byte, 256<<10)}
	defer func() { unix.Close(p.dir) }()
	if !layout.IsUpper {
		if err := p.header("./", "", tar.TypeDir, fd); err != nil {
			return err
		}
	}
	if err := p.directory(""); err != nil {
		return err
	}
	return p.tar.Close()
}

func (p *packer) directory(prefix string) error {
	names, err := safefs.Names(p.dir)
	if err != nil {
		return err
	}
	sort.Strings(names)
	for _, name := range names {
		if err := p.entry(name, prefix+name); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(name, path string) error {
	if len(path) > maxName {
		return hostproto.Errorf(hostproto.InvalidArgument, "tree.too_deep", "a path is longer than %d bytes: %.100q...", maxName, path)
	}
	fd, err := unix.Openat(p.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	kind := stat.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && stat.Nlink > 1 && !isWhiteout(&stat) {
		if first, there := p.links[stat.Ino]; there {
			return p.header(path, first, tar.TypeLink, fd)
		}
		p.links[stat.Ino] = path
	}
	switch kind {
	case unix.S_IFDIR:
		return p.subdirectory(name, path, fd)
	case unix.S_IFREG:
		return p.file(name, path, fd)
	case unix.S_IFLNK:
		n, err := unix.Readlinkat(fd, "", p.buffer)
		if err != nil {
			return err
		}
		return p.header(path, string(p.buffer[:n]), tar.TypeSymlink, fd)
	case unix.S_IFIFO:
		return p.header(path, "", tar.TypeFifo, fd)
	}
	if isWhiteout(&stat) {
		return p.mark(path[:len(path)-len(name)] + whiteoutPrefix + name)
	}
	// A socket is useless without the process that listened on it, and a sandbox's files contain no other
	// devices.
	return nil
}

func isWhiteout(stat *unix.Stat_t) bool {
	return stat.Mode&unix.S_IFMT == unix.S_IFCHR && stat.Rdev == 0
}

// mark writes an entry that stands for something missing.
func (p *packer) mark(path string) error {
	return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0, Format: tar.FormatPAX})
}

func (p *packer) subdirectory(name, path string, fd int) error {
	if err := p.header(path+"/", "", tar.TypeDir, fd); err != nil {
		return err
	}
	if value, err := getAttribute(fd, p.layout.opaque()); err == nil && string(value) == "y" {
		if err := p.mark(path + "/" + opaqueMark); err != nil {
			return err
		}
	}
	if err := p.step(name); err != nil {
		return err
	}
	if err := p.directory(path + "/"); err != nil {
		return err
	}
	return p.step("..")
}

func (p *packer) step(name string) error {
	next, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Close(p.dir)
	p.dir = next
	return nil
}

func (p *packer) file(name, path string, fd int) error {
	in, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(in), path)
	defer file.Close()
	if err := p.header(path, "", tar.TypeReg, fd); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{p.tar}, struct{ io.Reader }{file}, p.buffer)
	return err
}

// header writes the header of the entry that fd is open on.
func (p *packer) header(path, link string, kind byte, fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	header := &tar.Header{Typeflag: kind, Name: path, Linkname: link, Mode: int64(stat.Mode & 0o7777), Uid: p.inside(stat.Uid), Gid: p.inside(stat.Gid),
		ModTime: time.Unix(stat.Mtim.Unix()), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	if kind == tar.TypeReg {
		header.Size = stat.Size
	}
	if p.layout.IsUpper && strings.HasPrefix(lastPart(path), whiteoutPrefix) {
		header.PAXRecords[literalRecord] = "1"
	}
	if kind == tar.TypeReg || kind == tar.TypeDir {
		if err := p.attributes(fd, header.PAXRecords); err != nil {
			return fmt.Errorf("%.200q: %w", path, err)
		}
	}
	return p.tar.WriteHeader(header)
}

// nobody is the owner inside for a file whose owner is outside the sandboxes' range.
const nobody = 65534

func (p *packer) inside(id uint32) int {
	if inside := int(id) - p.layout.Shift; inside >= 0 && inside <= maxID {
		return inside
	}
	return nobody
}

func lastPart(path string) string {
	path = strings.TrimSuffix(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}
