package safefs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCopyTreeCopiesEverything(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: owners and whiteouts")
	}
	top := t.TempDir()
	tree := filepath.Join(top, "tree")
	must(t, os.MkdirAll(filepath.Join(tree, "dir"), 0o751))
	must(t, os.WriteFile(filepath.Join(tree, "dir/file"), []byte("text"), 0o640))
	must(t, os.Chown(filepath.Join(tree, "dir/file"), 1234, 4321))
	must(t, os.Chmod(filepath.Join(tree, "dir/file"), os.ModeSetuid|0o751))
	must(t, os.Link(filepath.Join(tree, "dir/file"), filepath.Join(tree, "second")))
	must(t, os.Symlink("/etc/shadow", filepath.Join(tree, "link")))
	must(t, unix.Mkfifo(filepath.Join(tree, "pipe"), 0o600))
	must(t, unix.Mknod(filepath.Join(tree, "gone"), unix.S_IFCHR, 0))
	sparse, err := os.Create(filepath.Join(tree, "sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 1<<30)
	must(t, err)
	must(t, sparse.Close())
	must(t, unix.Setxattr(filepath.Join(tree, "dir"), "trusted.overlay.opaque", []byte("y"), 0))
	must(t, unix.Lutimes(filepath.Join(tree, "link"), []unix.Timeval{{Sec: 1e9}, {Sec: 1e9}}))
	makeDeep(t, tree, 300)
	must(t, CopyTree(tree, top, "copy", nil))
	copied := filepath.Join(top, "copy")
	for _, name := range []string{"", "dir", "dir/file", "second", "link", "pipe", "gone", "sparse"} {
		var was, is unix.Stat_t
		must(t, unix.Lstat(filepath.Join(tree, name), &was))
		must(t, unix.Lstat(filepath.Join(copied, name), &is))
		if was.Mode != is.Mode || was.Uid != is.Uid || was.Gid != is.Gid || was.Mtim != is.Mtim || was.Rdev != is.Rdev || was.Nlink != is.Nlink ||
			(was.Mode&unix.S_IFMT != unix.S_IFDIR && was.Size != is.Size) {
			t.Errorf("%q: %+v became %+v", name, was, is)
		}
		if is.Blocks > 1024 {
			t.Errorf("%q has %d blocks", name, is.Blocks)
		}
	}
	if value, err := attribute(filepath.Join(copied, "dir"), "trusted.overlay.opaque"); err != nil || string(value) != "y" {
		t.Errorf("attribute %q %v", value, err)
	}
	if data, err := os.ReadFile(filepath.Join(copied, "second")); err != nil || string(data) != "text" {
		t.Errorf("%q %v", data, err)
	}
	if link, err := os.Readlink(filepath.Join(copied, "link")); err != nil || link != "/etc/shadow" {
		t.Errorf("%q %v", link, err)
	}
	must(t, RemoveTree(top, "copy"))
	must(t, RemoveTree(top, "tree"))
}

func TestCopyTreeRefusesDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a device")
	}
	top := t.TempDir()
	must(t, os.Mkdir(filepath.Join(top, "tree"), 0o755))
	must(t, unix.Mknod(filepath.Join(top, "tree/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	if err := CopyTree(filepath.Join(top, "tree"), top, "copy", nil); err == nil {
		t.Error("copied")
	}
}

func TestCopyTreeStopsWhenTheDiskIsFull(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	content := make([]byte, CheckEvery+1)
	for i := range content {
		content[i] = 1
	}
	if err := os.WriteFile(filepath.Join(source, "big"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if sharesBlocks(t, source) {
		t.Skip("needs a file system that cannot share blocks")
	}
	full := errors.New("full")
	if err := CopyTree(source, target, "copy", func() error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

func sharesBlocks(t *testing.T, dir string) bool {
	t.Helper()
	from, err := os.Open(filepath.Join(dir, "big"))
	must(t, err)
	defer from.Close()
	to, err := os.CreateTemp(t.TempDir(), "clone")
	must(t, err)
	defer to.Close()
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}
