package safefs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveTreeStaysInsideAndReachesTheBottom(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	must(t, os.MkdirAll(filepath.Join(outside, "dir"), 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "dir/kept"), []byte("kept"), 0o600))
	tree := filepath.Join(top, "tree")
	must(t, os.Mkdir(tree, 0o755))
	must(t, os.Symlink(outside, filepath.Join(tree, "link")))
	must(t, os.Symlink("../outside/dir", filepath.Join(tree, "relative")))
	must(t, unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600))
	for _, name := range []string{"new\nline", "-rf", "\xff\xfe", "sp ace"} {
		must(t, os.Mkdir(filepath.Join(tree, name), 0o755))
		must(t, os.WriteFile(filepath.Join(tree, name, "file"), nil, 0o000))
	}
	makeDeep(t, tree, 3000)
	must(t, RemoveTree(top, "tree"))
	if _, err := os.Lstat(tree); !os.IsNotExist(err) {
		t.Fatalf("the tree is still there: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "dir/kept")); err != nil || string(data) != "kept" {
		t.Fatalf("something outside was touched: %q %v", data, err)
	}
	must(t, RemoveTree(top, "tree"))
	must(t, RemoveTree(filepath.Join(top, "absent"), "tree"))
}

func TestRemoveTreeRemovesASymlinkAndNotItsTarget(t *testing.T) {
	top := t.TempDir()
	must(t, os.Mkdir(filepath.Join(top, "target"), 0o755))
	must(t, os.Symlink("target", filepath.Join(top, "link")))
	must(t, RemoveTree(top, "link"))
	if _, err := os.Stat(filepath.Join(top, "target")); err != nil {
		t.Fatal(err)
	}
}

func TestOpenBeneathRefusesToLeave(t *testing.T) {
	top := t.TempDir()
	must(t, os.Mkdir(filepath.Join(top, "in"), 0o755))
	must(t, os.WriteFile(filepath.Join(top, "secret"), nil, 0o600))
	must(t, os.Symlink("../secret", filepath.Join(top, "in/link")))
	must(t, os.Symlink("/etc", filepath.Join(top, "in/etc")))
	dir, err := unix.Open(filepath.Join(top, "in"), unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(dir)
	for _, name := range []string{"../secret", "link", "etc/passwd", "/etc/passwd", "..", "./../secret"} {
		if fd, err := OpenBeneath(dir, name, unix.O_RDONLY, 0); err == nil {
			unix.Close(fd)
			t.Errorf("%q was opened", name)
		}
	}
}

func makeDeep(t *testing.T, top string, levels int) {
	t.Helper()
	at, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for i := 0; i < levels; i++ {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
