package layer

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// upperGrammar is how the uppers of a root are named.
var upperGrammar = regexp.MustCompile(`\A[A-Za-z0-9_%-][A-Za-z0-9._%-]{0,199}\z`)

func damaged(format string, args ...any) *hostproto.Error {
	return hostproto.Errorf(hostproto.DataLoss, "snapshot.damaged", format, args...)
}

// ReadUppers unpacks what WriteArchive made of a directory of uppers into the empty directory dir. Nothing in the file is trusted: its digest
// says that it is the file that was meant, not who made it.
func ReadUppers(source *os.File, digest, dir string, form Form, room safefs.Room) (bytes int64, err error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, source); err != nil {
		return 0, err
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != digest {
		return 0, damaged("the file's sha256 is %s, not %s", found, digest)
	}
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	zipped, err := gzip.NewReader(bufio.NewReaderSize(source, 256<<10))
	if err != nil {
		return 0, damaged("not a gzip file: %v", err)
	}
	x, err := newExtractor(dir, form, room)
	if err != nil {
		return 0, err
	}
	defer x.close()
	err = x.extract(&wholeReader{Reader: zipped, x: x})
	if err == nil {
		// What follows the archive's end is read too, so that a file cut short inside its padding is noticed.
		_, err = io.Copy(io.Discard, &wholeReader{Reader: zipped, x: x})
	}
	if x.broken != nil {
		return 0, damaged("%v", x.broken)
	}
	var known *hostproto.Error
	if errors.As(err, &known) && known.Code == hostproto.InvalidArgument {
		known.Reason = "snapshot.invalid"
	}
	return x.bytes, err
}

// wholeReader notes that the file ended too early or is corrupt, whatever the reader of the archive makes of it.
type wholeReader struct {
	io.Reader
	x *extractor
}

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.x.broken = err
	}
	return n, err
}

// upperEntry deals with what only uppers have. handled: there is nothing more to do about the entry.
//
// SECURITY: FS-05, SC-01. The directory of uppers itself holds directories of known names and nothing else; a whiteout is made here, by its
// name, and is the only device; overlay's own attributes are set here and taken from nobody.
func (x *extractor) upperEntry(header *tar.Header, name string) (handled bool, err error) {
	if name == "" {
		return true, nil
	}
	top, rest, _ := strings.Cut(name, "/")
	if !upperGrammar.MatchString(top) {
		return false, invalid("%q is not the name of an upper", top)
	}
	if rest == "" {
		if header.Typeflag != tar.TypeDir {
			return false, invalid("the upper %q is not a directory", top)
		}
		return false, nil
	}
	base := path.Base(name)
	if !strings.HasPrefix(base, whiteoutPrefix) || header.PAXRecords[literalRecord] == "1" {
		return false, nil
	}
	if header.Typeflag != tar.TypeReg || header.Size != 0 {
		return false, invalid("the whiteout %q is not an empty file", name)
	}
	parent, err := x.parent(path.Dir(name))
	if err != nil {
		return false, err
	}
	defer unix.Close(parent)
	if base == opaqueMark {
		return true, unix.Setxattr(descriptorPath(parent), x.form.opaque(), []byte("y"), 0)
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteoutPrefix) {
		return false, invalid("%q is a whiteout of a form that is not known", name)
	}
	return true, unix.Mknodat(parent, hidden, unix.S_IFCHR, 0)
}

// attributes sets those that the archive gives an entry of an upper. Others than a user's own and capabilities are refused.
func (x *extractor) attributes(self string, header *tar.Header) error {
	for key, value := range header.PAXRecords {
		if !strings.HasPrefix(key, xattrRecord) {
			continue
		}
		name := strings.TrimPrefix(key, xattrRecord)
		if !isCarried(name) {
			return invalid("%q has the attribute %.100q", header.Name, name)
		}
		data := []byte(value)
		if name == capability {
			if x.form.UserXattr {
				continue
			}
			if data = ownedCapability(data, x.form.Shift); data == nil {
				return invalid("%q has a file capability of an unknown form", header.Name)
			}
		}
		if err := unix.Setxattr(self, name, data, 0); err != nil {
			return err
		}
	}
	return nil
}

// OpenFile opens <home>/tmp/<name>: a plain file directly there, and nothing else.
func OpenFile(home, name string) (*os.File, error) {
	dir, err := unix.Open(filepath.Join(home, "tmp"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := safefs.OpenBeneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, hostproto.Errorf(hostproto.NotFound, "layer.file", "there is no file tmp/%s", name)
		}
		return nil, hostproto.Errorf(hostproto.InvalidArgument, "layer.file", "tmp/%s is not a plain file: %v", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, hostproto.Errorf(hostproto.InvalidArgument, "layer.file", "tmp/%s is not a plain file", name)
	}
	return f, nil
}
