package vmtest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentpod/native/internal/mount"

	"golang.org/x/sys/unix"
)

// UID is the user of machines in tests.
const UID = 71234

// NeedsRoot skips a test that starts programs as other users do not.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// CopySelf copies the test program, so that it can play another one by its name.
func CopySelf(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	return path
}

// File makes a file with content and returns it open.
func File(t *testing.T, content string) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
	return file
}

// Mounted makes a file and returns its path and a detached mount of it, which belongs to UID.
func Mounted(t *testing.T, content string, readOnly bool) (string, *os.File) {
	t.Helper()
	file := File(t, content)
	if err := file.Chmod(0o600); err != nil {
		t.Fatal(err)
	}
	attrs := uint64(0)
	if readOnly {
		attrs = unix.MOUNT_ATTR_RDONLY
	}
	idmap, err := mount.NewOwner(UID)
	if err != nil {
		t.Fatal(err)
	}
	defer idmap.Close()
	mounted, err := mount.FileFor(file, idmap, attrs)
	if err != nil {
		// Not every file system can shift ids.
		if err := file.Chown(UID, UID); err != nil {
			t.Fatal(err)
		}
		if mounted, err = mount.FileFor(file, nil, attrs); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { mounted.Close() })
	return file.Name(), mounted
}

// Lines returns those of a log that begin with a word, without it.
func Lines(t *testing.T, log *os.File, word string) []string {
	t.Helper()
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, word+" ") {
			found = append(found, line[len(word)+1:])
		}
	}
	return found
}

// CheckMemory compares the beginning of a memory file.
func CheckMemory(path, wanted string, size int64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if int64(len(text)) != size || !strings.HasPrefix(string(text), wanted) {
		return fmt.Errorf("the memory has %d bytes and begins with %.40q, not %d bytes and %q", len(text), text, size, wanted)
	}
	return nil
}
