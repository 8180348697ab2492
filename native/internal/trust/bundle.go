package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A bundle is a file of certificates. Its first kept bytes are not AgentPod's. It is copied within the
// kernel, so that podd stays small although bundles are large. The zero bundle is empty.
type bundle struct {
	file       *os.File
	size, kept int64
	// unended: the kept part has no newline at its end.
	unended bool
}

func (b bundle) close() {
	if b.file != nil {
		b.file.Close()
	}
}

// open accepts a plain file of a bundle's size, and never waits, because programs inside may have changed the
// tree.
//
// SECURITY: podd can reach files that root inside, who has no capabilities, cannot. A link to another user's
// file must not make that file readable to all.
func open(path string) (b bundle, err error) {
	if b.file, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0); err != nil {
		return bundle{}, err
	}
	info, err := b.file.Stat()
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(stat.Uid) != os.Geteuid() || !info.Mode().IsRegular() || info.Size() > maxBundle {
			err = fmt.Errorf("%s does not belong to root, or is too long for a bundle", path)
		}
	}
	if err == nil {
		b.size = info.Size()
		err = b.findKept()
	}
	if err != nil {
		b.close()
		return bundle{}, err
	}
	return b, nil
}

// findKept looks for the marker.
func (b *bundle) findKept() error {
	buffer := make([]byte, 16<<10)
	b.kept = b.size
	for at := int64(0); at < b.size; {
		n, err := b.file.ReadAt(buffer, at)
		if found := bytes.Index(buffer[:n], []byte(marker)); found >= 0 {
			b.kept = at + int64(found)
			break
		}
		if errors.Is(err, io.EOF) || n < len(marker) {
			break
		}
		if err != nil {
			return err
		}
		// The marker may begin in this part and end in the next.
		at += int64(n - len(marker) + 1)
	}
	if b.kept == 0 {
		return nil
	}
	_, err := b.file.ReadAt(buffer[:1], b.kept-1)
	b.unended = buffer[0] != '\n'
	return err
}

// endsWith reports whether the bundle already has the right content.
func (b bundle) endsWith(own []byte) bool {
	if b.unended || b.size != b.kept+int64(len(own)) {
		return false
	}
	tail := make([]byte, len(own))
	_, err := b.file.ReadAt(tail, b.kept)
	return err == nil && bytes.Equal(tail, own)
}

// copyTo writes the kept part, as whole lines.
func (b bundle) copyTo(file *os.File) error {
	if b.kept == 0 {
		return nil
	}
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n, err := file.ReadFrom(io.LimitReader(b.file, b.kept))
	if err == nil && n != b.kept {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if !b.unended {
		return nil
	}
	_, err = file.WriteString("\n")
	return err
}
