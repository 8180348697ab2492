package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

func tarOf(entries ...tar.Header) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, entry := range entries {
		header := entry
		body := ""
		if header.Typeflag == tar.TypeReg {
			body = "content of " + header.Name
			header.Size = int64(len(body))
		}
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		w.WriteHeader(&header)
		io.WriteString(w, body)
	}
	w.Close()
	return out.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func dir(name string) tar.Header  { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
func symlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hardlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

// arena is a root to unpack in, with a neighbour that must not change.
func arena(t testing.TB) (root string, untouched func()) {
	top := t.TempDir()
	root = filepath.Join(top, "root")
	secret := filepath.Join(top, "outside", "secret")
	os.MkdirAll(filepath.Dir(secret), 0o755)
	os.WriteFile(secret, []byte("secret"), 0o600)
	return root, func() {
		t.Helper()
		text, err := os.ReadFile(secret)
		var stat unix.Stat_t
		unix.Stat(secret, &stat)
		outside, _ := os.ReadDir(filepath.Dir(secret))
		beside, _ := os.ReadDir(top)
		if err != nil || string(text) != "secret" || stat.Nlink != 1 || len(outside) != 1 || len(beside) > 2 {
			t.Fatalf("the neighbour changed: %q %v, %d links, %v %v", text, err, stat.Nlink, outside, beside)
		}
	}
}

// TestHostileTarEntriesStayInsideOrAreRefused covers the attack cases FS-09, FS-10 and SC-01.
func TestHostileTarEntriesStayInsideOrAreRefused(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"a step up":                   {file("../outside/x")},
		"a step up in the middle":     {file("a/../../outside/x")},
		"an absolute name":            {file("/etc/x")},
		"through a link":              {symlink("l", "../outside"), file("l/x")},
		"through a link to a link":    {symlink("a", "../outside"), symlink("b", "a"), file("b/x")},
		"a directory behind a link":   {symlink("l", "../outside"), dir("l/d")},
		"through an absolute link":    {symlink("l", "/tmp"), file("l/x/y")},
		"a hard link outside":         {hardlink("h", "../outside/secret")},
		"a hard link through a link":  {symlink("l", "../outside"), hardlink("h", "l/secret")},
		"a hard link to a link":       {symlink("l", "../outside/secret"), hardlink("h", "l")},
		"an absolute hard link":       {hardlink("h", "/etc/passwd")},
		"a device":                    {{Typeflag: tar.TypeChar, Name: "d", Devmajor: 1, Devminor: 3}},
		"a pipe":                      {{Typeflag: tar.TypeFifo, Name: "p"}},
		"a file in place of a parent": {file("f"), file("f/x")},
	} {
		t.Run(name, func(t *testing.T) {
			root, untouched := arena(t)
			err := Unpack(root, bytes.NewReader(tarOf(entries...)), false)
			untouched()
			if err == nil || connect.AsError(err).Code != connect.InvalidArgument {
				t.Fatalf("answer: %v", err)
			}
		})
	}
}

func TestAnUnpackedFileReplacesALinkAndNotItsTarget(t *testing.T) {
	root, untouched := arena(t)
	entries := tarOf(symlink("l", "../outside/secret"), file("l"), dir("d"), symlink("d2", "../outside"), dir("d2"), file("d2/x"))
	if err := Unpack(root, bytes.NewReader(entries), false); err != nil {
		t.Fatal(err)
	}
	untouched()
	if text, _ := os.ReadFile(filepath.Join(root, "l")); string(text) != "content of l" {
		t.Fatalf("%q", text)
	}
}

func TestUnpackingKeepsModesAndTimesButNotSetuid(t *testing.T) {
	root, _ := arena(t)
	when := time.Unix(1_500_000_000, 0)
	entries := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "ro", Mode: 0o555, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "ro/suid", Mode: 0o6755, ModTime: when},
		{Typeflag: tar.TypeLink, Name: "ro/same", Linkname: "ro/suid"},
	}
	if err := Unpack(root, bytes.NewReader(tarOf(entries...)), false); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"ro": os.ModeDir | 0o555, "ro/suid": 0o755, "ro/same": 0o755} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode() != mode || !info.ModTime().Equal(when) {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	os.Chmod(filepath.Join(root, "ro"), 0o755)
}

func TestADecompressionBombIsRefused(t *testing.T) {
	root, _ := arena(t)
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	w := tar.NewWriter(z)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: 512 << 20, Mode: 0o644})
	block := make([]byte, 1<<20)
	for i := 0; i < 512; i++ {
		w.Write(block)
	}
	w.Close()
	z.Close()
	err := Unpack(root, &zipped, true)
	if err == nil || connect.AsError(err).HTTPStatus() != 413 {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(root, "zeros")); err == nil && info.Size() > freeBytes {
		t.Fatalf("%d bytes came out", info.Size())
	}
}

func TestAPackedTreeUnpacksTheSame(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	os.MkdirAll(filepath.Join(from, "a/b"), 0o755)
	os.WriteFile(filepath.Join(from, "a/b/c"), bytes.Repeat([]byte("x"), 300_000), 0o755)
	os.WriteFile(filepath.Join(from, "a/"+strings.Repeat("n", 200)), nil, 0o600)
	os.Symlink("/etc/passwd", filepath.Join(from, "link"))
	unix.Mkfifo(filepath.Join(from, "pipe"), 0o644)
	var packed bytes.Buffer
	if err := Pack(from, func() io.Writer { return &packed }); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(to, &packed, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(to, "a/b/c")); err != nil || info.Size() != 300_000 || info.Mode() != 0o755 {
		t.Error(info, err)
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); target != "/etc/passwd" {
		t.Error(target, err)
	}
	if _, err := os.Lstat(filepath.Join(to, "pipe")); !os.IsNotExist(err) {
		t.Error("the pipe was packed")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(symlink("l", "../outside"), file("l/x")))
	f.Add(tarOf(dir("d"), file("d/f"), hardlink("h", "d/f"), symlink("d/l", "..")))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, untouched := arena(t)
		Unpack(root, bytes.NewReader(data), false)
		untouched()
		filepath.Walk(root, func(name string, _ os.FileInfo, _ error) error {
			os.Chmod(name, 0o755) // so that the directory can be removed
			return nil
		})
	})
}
