package layer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

var uppers = Layout{Shift: 500000, IsUpper: true}

// read unpacks data as uppers and returns the directory they are in.
func read(t *testing.T, data []byte, digest string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: owners and whiteouts")
	}
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, data, 0o600))
	source, err := os.Open(file)
	check(t, err)
	defer source.Close()
	if digest == "" {
		sum := sha256.Sum256(data)
		digest = hex.EncodeToString(sum[:])
	}
	dir := t.TempDir()
	_, err = ReadUppers(source, digest, dir, uppers, nil)
	return dir, err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func zip(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}

func TestExportedUppersAreImportedUnchanged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: owners and whiteouts")
	}
	top := t.TempDir()
	root := filepath.Join(top, "upper/root")
	check(t, os.MkdirAll(filepath.Join(root, "dir"), 0o750))
	check(t, os.WriteFile(filepath.Join(root, "dir/file"), []byte("text"), 0o600))
	check(t, os.Link(filepath.Join(root, "dir/file"), filepath.Join(root, "second")))
	check(t, os.Symlink("/etc/shadow", filepath.Join(root, "link")))
	check(t, unix.Mkfifo(filepath.Join(root, "pipe"), 0o640))
	check(t, unix.Mknod(filepath.Join(root, "gone"), unix.S_IFCHR, 0))
	check(t, os.WriteFile(filepath.Join(root, ".wh.real"), []byte("no whiteout"), 0o600))
	check(t, unix.Setxattr(filepath.Join(root, "dir"), "trusted.overlay.opaque", []byte("y"), 0))
	check(t, unix.Setxattr(filepath.Join(root, "dir/file"), "user.note", []byte("a\x00b"), 0))
	check(t, filepath.Walk(top, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uppers.Shift+7, uppers.Shift)
	}))
	owned := ownedCapability([]byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uppers.Shift)
	check(t, unix.Setxattr(filepath.Join(root, "dir/file"), capability, owned, 0))
	file := filepath.Join(top, "file")
	first, err := WriteArchive(file, filepath.Join(top, "upper"), uppers, nil)
	check(t, err)
	// The rest of an interrupted attempt is replaced.
	check(t, os.WriteFile(filepath.Join(top, ".file.part"), []byte("half"), 0o600))
	check(t, os.WriteFile(file, []byte("former"), 0o600))
	if again, err := WriteArchive(file, filepath.Join(top, "upper"), uppers, nil); err != nil || again != first {
		t.Errorf("%+v, then %+v %v", first, again, err)
	}
	data, err := os.ReadFile(file)
	check(t, err)
	dir, err := read(t, data, first.Digest)
	check(t, err)
	for _, name := range []string{"root", "root/dir", "root/dir/file", "root/second", "root/link", "root/pipe", "root/gone", "root/.wh.real"} {
		var was, is unix.Stat_t
		check(t, unix.Lstat(filepath.Join(top, "upper", name), &was))
		check(t, unix.Lstat(filepath.Join(dir, name), &is))
		same := was.Mode == is.Mode && was.Nlink == is.Nlink && was.Rdev == is.Rdev
		if was.Mode&unix.S_IFMT != unix.S_IFCHR {
			same = same && was.Uid == is.Uid && was.Gid == is.Gid && was.Mtim == is.Mtim
		}
		if !same {
			t.Errorf("%s: %+v became %+v", name, was, is)
		}
	}
	for name, want := range map[string]string{"trusted.overlay.opaque": "y", "user.note": "a\x00b", capability: string(owned)} {
		path := "root/dir/file"
		if name == "trusted.overlay.opaque" {
			path = "root/dir"
		}
		value := make([]byte, 100)
		n, err := unix.Getxattr(filepath.Join(dir, path), name, value)
		if err != nil || string(value[:n]) != want {
			t.Errorf("%s is %q, not %q: %v", name, value[:n], want, err)
		}
	}
}

func TestDamagedOrHostileUppersAreRefused(t *testing.T) {
	good := []tar.Header{{Name: "root/", Typeflag: tar.TypeDir}, {Name: "root/file", Typeflag: tar.TypeReg}}
	if _, err := read(t, zip(t, pack(t, good...)), ""); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	record := func(key, value string) []tar.Header {
		return append(good[:1:1], tar.Header{Name: "root/x", Typeflag: tar.TypeDir, PAXRecords: map[string]string{key: value}})
	}
	for name, headers := range map[string][]tar.Header{
		"a device":              append(good, tar.Header{Name: "root/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"a whiteout device":     append(good, tar.Header{Name: "root/null", Typeflag: tar.TypeChar}),
		"a path outside":        append(good, tar.Header{Name: "root/../../x", Typeflag: tar.TypeReg}),
		"a link as an upper":    {{Name: "usr", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
		"a file as an upper":    {{Name: "usr", Typeflag: tar.TypeReg}},
		"an upper of no name":   {{Name: "a b/x", Typeflag: tar.TypeReg}},
		"through a link":        append(good, tar.Header{Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "root/l/x", Typeflag: tar.TypeReg}),
		"somebody else's id":    {{Name: "root/", Typeflag: tar.TypeDir, Uid: 65536}},
		"a hard link outside":   append(good, tar.Header{Name: "root/h", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}),
		"an unknown whiteout":   append(good, tar.Header{Name: "root/.wh..wh.plnk", Typeflag: tar.TypeDir}),
		"a whiteout of nothing": append(good, tar.Header{Name: "root/.wh.", Typeflag: tar.TypeDir}),
		"a whiteout of a step":  append(good, tar.Header{Name: "root/.wh...", Typeflag: tar.TypeDir}),
		"overlay's attribute":   record(xattrRecord+"trusted.overlay.redirect", "/etc"),
		"a user's overlay":      record(xattrRecord+"user.overlay.opaque", "y"),
		"an access list":        record(xattrRecord+"system.posix_acl_access", "x"),
		"the host's capability": record(xattrRecord+capability, "\x01\x00\x00\x03aaaabbbbccccddddeeee"),
	} {
		_, err := read(t, zip(t, pack(t, headers...)), "")
		var known *hostproto.Error
		if !errors.As(err, &known) || known.Code != hostproto.InvalidArgument || known.Reason != "snapshot.invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := zip(t, pack(t, good...))
	for name, data := range map[string][]byte{
		"cut short": whole[:len(whole)-20], "empty": {}, "not compressed": pack(t, good...), "half a tar": zip(t, pack(t, good...)[:700])[:40],
	} {
		_, err := read(t, data, "")
		var known *hostproto.Error
		if !errors.As(err, &known) || known.Code != hostproto.DataLoss || known.Reason != "snapshot.damaged" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read(t, whole, hex.EncodeToString(make([]byte, 32))); err == nil {
		t.Error("another digest passed")
	}
}

func TestAnExportedLayerCanBeImported(t *testing.T) {
	s := newStore(t)
	digest, err := s.put(t, pack(t, tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o711, Uid: 3}, tar.Header{Name: "bin/sh", Typeflag: tar.TypeReg, Uid: 5}))
	check(t, err)
	written, err := s.Export(digest, "out")
	check(t, err)
	check(t, s.Remove(digest))
	info, err := s.Import(written.Digest, "out")
	check(t, err)
	var root, sh unix.Stat_t
	check(t, unix.Stat(filepath.Join(s.dir(), info.Digest, "tree"), &root))
	check(t, unix.Stat(filepath.Join(s.dir(), info.Digest, "tree/bin/sh"), &sh))
	if root.Uid != 3 || root.Mode&0o777 != 0o711 || sh.Uid != 5 {
		t.Errorf("%+v %+v", root, sh)
	}
}
