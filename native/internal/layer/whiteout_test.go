package layer

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentpod/native/internal/mount"

	"golang.org/x/sys/unix"
)

// IMG-3. Two layers are mounted, and the test looks at what is visible.
func TestImagesStackAsTheSpecificationSays(t *testing.T) {
	s := newStore(t)
	reg := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644} }
	empty := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 0} }
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
	lower, err := s.put(t, pack(t, reg("gone"), reg("kept"), reg("opaque/old"), reg("again/old"), reg("later/old"), reg("file-then-dir"), reg("twice")))
	check(t, err)
	upper, err := s.put(t, pack(t, empty(".wh.gone"), dir("opaque"), reg("opaque/new"), empty("opaque/.wh..wh..opq"),
		empty(".wh.again"), dir("again"), reg("again/new"), reg("later/new"), empty(".wh.later"),
		empty(".wh.file-then-dir"), reg("file-then-dir/new"), reg("twice"), empty(".wh.twice"), empty(".wh..wh.plnk"),
		tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}))
	check(t, err)
	merged := t.TempDir()
	tree := func(digest string) string { return filepath.Join(s.Home, "layers", digest, "tree") }
	if err := (mount.Overlay{Lower: []string{tree(upper), tree(lower)}}).Mount(merged); err != nil {
		t.Skipf("no overlay here: %v", err)
	}
	defer mount.Detach(merged)
	for path, isThere := range map[string]bool{
		"gone": false, "kept": true, "opaque/old": false, "opaque/new": true, "again/old": false, "again/new": true,
		"later/old": false, "later/new": true, "file-then-dir/new": true, "twice": true, "dev/null": false, ".wh.gone": false,
	} {
		if _, err := os.Lstat(filepath.Join(merged, path)); (err == nil) != isThere {
			t.Errorf("%s: %v", path, err)
		}
	}
	// Exported and imported again it hides the same names.
	written, err := s.Export(upper, "again.tar")
	check(t, err)
	data, err := os.ReadFile(filepath.Join(s.Home, "tmp/again.tar"))
	check(t, err)
	again, err := s.put(t, data)
	check(t, err)
	if written.Digest != again {
		t.Errorf("%s is not %s", written.Digest, again)
	}
	var stat unix.Stat_t
	check(t, unix.Lstat(filepath.Join(tree(again), "gone"), &stat))
	value := make([]byte, 8)
	n, err := unix.Getxattr(filepath.Join(tree(again), "opaque"), "trusted.overlay.opaque", value)
	if !isWhiteout(&stat) || err != nil || string(value[:n]) != "y" {
		t.Errorf("after export and import: %+v, %q %v", stat, value[:n], err)
	}
}

func TestALayerKeepsAUsersAttributesAndNoOthers(t *testing.T) {
	s := newStore(t)
	digest, err := s.put(t, pack(t, tar.Header{Name: "file", Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{
		xattrRecord + "user.note": "hello", xattrRecord + "trusted.overlay.opaque": "y", xattrRecord + "security.selinux": "x", xattrRecord + "user.overlay.redirect": "/etc"}}))
	check(t, err)
	names := make([]byte, 1024)
	n, err := unix.Listxattr(filepath.Join(s.Home, "layers", digest, "tree/file"), names)
	if errText := string(names[:n]); err != nil || !strings.Contains(errText, "user.note") || strings.Contains(errText, "overlay") || strings.Contains(errText, "selinux") {
		t.Errorf("%q %v", names[:n], err)
	}
}
