package layer

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"
)

// scarce has space for a while.
func scarce(times int) safefs.SpaceCheck {
	return func() error {
		if times--; times < 0 {
			return hostproto.Errorf(hostproto.ResourceExhausted, "disk.reserve", "the disk is down to its reserve")
		}
		return nil
	}
}

func isScarce(err error) bool {
	var known *hostproto.Error
	return errors.As(err, &known) && known.Reason == "disk.reserve"
}

func TestWritingStopsWhenTheDiskIsDownToItsReserve(t *testing.T) {
	dir := t.TempDir()
	content := make([]byte, 3*safefs.CheckEvery)
	_, err := rand.Read(content)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "big"), content, 0o600))
	target := filepath.Join(t.TempDir(), "file")
	if _, err := WriteArchive(target, dir, Layout{}, scarce(1)); !isScarce(err) {
		t.Errorf("export: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	_, err = WriteArchive(target, dir, Layout{}, scarce(4))
	check(t, err)
	for times, want := range map[int]bool{1: true, 4: false} {
		x, err := newExtractor(t.TempDir(), Layout{}, scarce(times))
		check(t, err)
		err = x.entry(&tar.Header{Name: "big", Typeflag: tar.TypeReg, Size: int64(len(content))}, openedAt(t, filepath.Join(dir, "big")))
		if isScarce(err) != want || (!want && err != nil) {
			t.Errorf("import with room for %d: %v", times, err)
		}
		x.close()
	}
}

func openedAt(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	check(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}
