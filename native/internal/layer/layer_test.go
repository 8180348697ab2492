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
	"syscall"
	"testing"

	"agentpod/native/internal/hostproto"
)

func newStore(t *testing.T) *Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: layers keep their owners")
	}
	home := t.TempDir()
	for _, dir := range []string{"tmp", "layers"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &Store{Home: home, Forget: func(string) {}}
}

func pack(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for i := range headers {
		header := headers[i]
		if header.Mode == 0 {
			header.Mode = 0o755
		}
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(header.Name))
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(header.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func (s *Store) put(t *testing.T, data []byte) (digest string, err error) {
	t.Helper()
	sum := sha256.Sum256(data)
	if err := os.WriteFile(filepath.Join(s.Home, "tmp/x.tar"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	digest = hex.EncodeToString(sum[:])
	_, err = s.Import(digest, "x.tar")
	return digest, err
}

func TestALayerKeepsOwnersModesAndLinks(t *testing.T) {
	s := newStore(t)
	data := pack(t,
		tar.Header{Name: "dir/sub/file", Typeflag: tar.TypeReg, Uid: 1000, Gid: 50, Mode: 0o4750},
		tar.Header{Name: "dir/hard", Typeflag: tar.TypeLink, Linkname: "dir/sub/file"},
		tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd", Uid: 7},
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o711},
	)
	for name, layout := range map[string][]byte{"plain": data, "compressed": compress(t, data)} {
		digest, err := s.put(t, layout)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tree := filepath.Join(s.Home, "layers", digest, "tree")
		file, hard := lstat(t, tree+"/dir/sub/file"), lstat(t, tree+"/dir/hard")
		if file.Uid != 1000 || file.Gid != 50 || file.Mode&0o7777 != 0o4750 || file.Ino != hard.Ino {
			t.Errorf("%s: file %+v, hard link %+v", name, file, hard)
		}
		if link := lstat(t, tree+"/link"); link.Uid != 7 || link.Mode&syscall.S_IFMT != syscall.S_IFLNK {
			t.Errorf("%s: link %+v", name, link)
		}
		if root := lstat(t, tree); root.Mode&0o7777 != 0o711 {
			t.Errorf("%s: root has mode %o", name, root.Mode)
		}
	}
	layers, err := s.List()
	if err != nil || len(layers) != 2 {
		t.Fatalf("%v %v", layers, err)
	}
	for _, layer := range layers {
		if err := s.Remove(layer.Digest); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(layer.Digest); err != nil {
			t.Fatalf("a second removal: %v", err)
		}
	}
	nothingLeft(t, s)
}

func TestAHostileArchiveIsRefusedAndLeavesNothing(t *testing.T) {
	reg := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	cases := map[string][]byte{
		"parent":                             pack(t, reg("../escape")),
		"parent in the middle":               pack(t, reg("a/../../escape")),
		"through a symlink":                  pack(t, link("a", "/tmp"), reg("a/escape")),
		"through a relative symlink":         pack(t, tar.Header{Name: "d", Typeflag: tar.TypeDir}, link("d/a", "../.."), reg("d/a/escape")),
		"directory over a symlink":           pack(t, link("a", "/tmp"), tar.Header{Name: "a", Typeflag: tar.TypeDir}),
		"hard link out":                      pack(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../host.json"}),
		"hard link absolute through symlink": pack(t, link("e", "/etc"), tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "e/passwd"}),
		"hard link to nothing":               pack(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "b"}),
		"character device":                   pack(t, tar.Header{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1}),
		"block device":                       pack(t, tar.Header{Name: "a", Typeflag: tar.TypeBlock, Devmajor: 8}),
		"uid beyond the range":               pack(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Uid: 65536}),
		"file as directory":                  pack(t, reg("a"), reg("a/b")),
		"root as file":                       pack(t, reg(".")),
		"not a tar file":                     bytes.Repeat([]byte("garbage "), 1000),
		"cut off":                            pack(t, reg("a"))[:512],
		"gzip of garbage":                    append([]byte{0x1f, 0x8b}, bytes.Repeat([]byte{7}, 100)...),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			_, err := s.put(t, data)
			var refused *hostproto.Error
			if !errors.As(err, &refused) || refused.Code != hostproto.InvalidArgument {
				t.Fatalf("answered %v", err)
			}
			nothingLeft(t, s)
			if _, err := os.Lstat("/tmp/escape"); err == nil {
				t.Fatal("/tmp/escape was made")
			}
		})
	}
}

func TestALayerFileThatIsSpecialOrHasAnotherDigestIsRefused(t *testing.T) {
	s := newStore(t)
	digest := hex.EncodeToString(make([]byte, 32))
	tmp := filepath.Join(s.Home, "tmp")
	if err := os.Symlink("/etc/passwd", filepath.Join(tmp, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(tmp, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "other"), pack(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, code := range map[string]string{"link": hostproto.InvalidArgument, "fifo": hostproto.InvalidArgument,
		"absent": hostproto.NotFound, "other": hostproto.DataLoss} {
		_, err := s.Import(digest, file)
		if refused := hostproto.AsError(err); err == nil || refused.Code != code {
			t.Errorf("%s: %v", file, err)
		}
	}
	nothingLeft(t, s)
}

func compress(t *testing.T, data []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func lstat(t *testing.T, path string) syscall.Stat_t {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Lstat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return stat
}

func nothingLeft(t *testing.T, s *Store) {
	t.Helper()
	entries, err := os.ReadDir(s.dir())
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}
