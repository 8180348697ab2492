package machines

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestACopyOfASparseFileIsTheSameAndSparse(t *testing.T) {
	dir := t.TempDir()
	from, err := os.Create(filepath.Join(dir, "from"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := from.Truncate(64 * mib); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 10*mib + 5, 64*mib - 3} {
		if _, err := from.WriteAt([]byte("abc"), at); err != nil {
			t.Fatal(err)
		}
	}
	to, err := os.Create(filepath.Join(dir, "to"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := copySparse(from, to); err != nil {
		t.Fatal(err)
	}
	one, _ := os.ReadFile(from.Name())
	two, _ := os.ReadFile(to.Name())
	if !bytes.Equal(one, two) {
		t.Error("the copy differs")
	}
	if used, err := usedBytes(to); err != nil || used > 4*mib {
		t.Errorf("the copy takes %d bytes, %v", used, err)
	}
	if _, err := cloneFile(from.Name(), to.Name()); err == nil {
		t.Error("a file that exists was overwritten")
	}
}

func TestTheArchiveIsReadByCpio(t *testing.T) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	a := &archive{}
	a.add("/dir", directory, nil, 0, 0)
	a.add("/dir/file", 0o100644, []byte("content\n"), 0, 0)
	a.add("TRAILER!!!", 0, nil, 0, 0)
	dir := t.TempDir()
	cmd := exec.Command(program, "cpio", "-i", "-d")
	cmd.Dir, cmd.Stdin = dir, &a.Buffer
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "dir/file")); err != nil || string(text) != "content\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestADiskIsAsLargeAsItsLimit(t *testing.T) {
	for _, c := range []struct{ asked, want int64 }{{0, defaultDiskBytes}, {1, leastDiskBytes}, {100*mib + 1, 100 * mib}} {
		if got := diskBytes(c.asked); got != c.want {
			t.Errorf("%d bytes for a limit of %d", got, c.asked)
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct{ asked, want int64 }{{32 * mib, 32 * mib}, {16 * mib, 32 * mib}, {0, 32 * mib}, {64 * mib, 64 * mib}} {
		if got, err := Grow(file, c.asked); err != nil || got != c.want {
			t.Errorf("%d bytes for %d, %v", got, c.asked, err)
		}
	}
}

func TestTheDiskOfALayerHasItsFilesOwnersAndWhiteouts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	debugfs, err := lookPath("debugfs")
	if err != nil {
		t.Skip("needs e2fsprogs")
	}
	tree, disk := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(filepath.Join(tree, "file"), []byte("content"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(tree, "file"), 1000, 1001); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(tree, "gone"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	if err := makeLayerDisk(tree, disk); err != nil {
		t.Fatal(err)
	}
	ask := func(request string) []byte {
		output, err := exec.Command(debugfs, "-R", request, disk).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return output
	}
	if output := ask("stat /gone"); !bytes.Contains(output, []byte("Type: character special")) {
		t.Errorf("no whiteout: %s", output)
	}
	output := ask("stat /file")
	for _, wanted := range []string{"Mode:  0640", fmt.Sprintf("User: %5d", 1000), fmt.Sprintf("Group: %5d", 1001), "Size: 7"} {
		if !bytes.Contains(output, []byte(wanted)) {
			t.Errorf("no %q in %s", wanted, output)
		}
	}
}
