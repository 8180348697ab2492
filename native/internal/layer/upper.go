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

// ReadUppers unpacks an archive that WriteArchive made of a directory of uppers into the empty directory dir.
// Nothing in the file is trusted: its digest proves that it is the intended file, not who made it.
func ReadUppers(source *os.File, digest, dir string, layout Layout, check safefs.SpaceCheck) (bytes int64, err error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, source); err != nil {
		return 0, err
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != digest {
		return 0, damaged("the sha256 of the file is %s, not %s", found, digest)
	}
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	zipped, err := gzip.NewReader(bufio.NewReaderSize(source, 256<<10))
	if err != nil {
		return 0, damaged("not a gzip file: %v", err)
	}
	x, err := newExtractor(dir, layout, check)
	if err != nil {
		return 0, err
	}
	defer x.close()
	err = x.extract(&wholeReader{Reader: zipped, x: x})
	if err == nil {
		// Data after the archive's end is read too, to notice a file that is cut inside its padding.
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

// wholeReader records whether the file ended too early or is corrupt, whatever the archive reader reports.
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

// upperEntry handles the entries that only uppers have. handled means that the entry needs nothing more.
//
// SECURITY: FS-05, SC-01. The directory of uppers contains only directories of known names. A whiteout is
// made here, by its name, and is the only device. overlay's own attributes are set here and never taken from
// the archive.
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
	if !strings.HasPrefix(path.Base(name), whiteoutPrefix) || header.PAXRecords[literalRecord] == "1" {
		return false, nil
	}
	if header.Typeflag != tar.TypeReg || header.Size != 0 {
		return false, invalid("the whiteout %q is not an empty file", name)
	}
	return true, x.whiteout(name)
}

// attributes sets those that the archive gives an entry. It refuses all but a user's own and capabilities in
// an upper, and leaves the others out in a layer: tools of other people wrote it, on other machines.
func (x *extractor) attributes(self string, header *tar.Header) error {
	for key, value := range header.PAXRecords {
		if !strings.HasPrefix(key, xattrRecord) {
			continue
		}
		name := strings.TrimPrefix(key, xattrRecord)
		if !isCarried(name) {
			if !x.layout.IsUpper {
				continue
			}
			return invalid("%q has the attribute %.100q", header.Name, name)
		}
		data := []byte(value)
		if name == capability && x.layout.IsUpper {
			if x.layout.UserXattr {
				continue
			}
			if data = ownedCapability(data, x.layout.Shift); data == nil {
				return invalid("%q has a file capability of an unknown version", header.Name)
			}
		}
		if err := unix.Setxattr(self, name, data, 0); err != nil {
			return err
		}
	}
	return nil
}

// OpenFile opens <home>/tmp/<name>: only a plain file directly there.
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
