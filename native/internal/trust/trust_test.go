package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// certificate makes a real certificate.
func certificate(t testing.TB, serial int64) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree is a root with the directories every root has.
func tree(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func text(t *testing.T, root, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestOnlyCertificatesAreAcceptedAsTrustAnchors(t *testing.T) {
	one, two := certificate(t, 1), certificate(t, 2)
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{0x30, 2, 5, 0}}))
	for name, anchors := range map[string]Anchors{
		"one": {CA: one}, "two and blank lines": {CA: "\n" + one + "\n\n" + two}, "with roots": {CA: one, Roots: two + one},
	} {
		if err := anchors.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, anchors := range map[string]Anchors{
		"nothing": {}, "roots alone": {Roots: one}, "text": {CA: "hello"}, "a key": {CA: key}, "a key in the roots": {CA: one, Roots: one + key},
		"text before": {CA: "# mine\n" + one}, "text between": {CA: one + "x\n" + two}, "text behind": {CA: one + "x"},
		"no end":            {CA: strings.Replace(one, "-----END", "-----end", 1)},
		"a skipped block":   {CA: strings.Replace(one, "-----END", "-----end", 1) + two},
		"a header":          {CA: strings.Replace(one, "\n", "\nProc-Type: 4\n\n", 1)},
		"not a certificate": {CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("hello")}))},
		"cut":               {CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{0x30, 0x82, 9, 9, 9}}))},
		"too long":          {CA: one, Roots: strings.Repeat(one, MaxText/len(one)+1)},
	} {
		if anchors.Check() == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// NET-16
func TestEveryExistingCertificateBundleIsExtendedAndLaterReplaced(t *testing.T) {
	root := tree(t)
	one, two, roots := certificate(t, 1), certificate(t, 2), certificate(t, 3)
	put(t, filepath.Join(root, bundles[0]), "system")
	put(t, filepath.Join(root, bundles[1]), "other\n")
	put(t, filepath.Join(root, localDir, "README"), "")
	if err := os.Symlink("certs/ca-certificates.crt", filepath.Join(root, bundles[3])); err != nil {
		t.Fatal(err)
	}
	Anchors{CA: one, Roots: roots}.writeBelow(root)
	Anchors{CA: two}.writeBelow(root)
	Anchors{CA: two}.writeBelow(root)
	want := "system\n" + marker + two
	for _, path := range []string{bundles[0], bundles[3], ownDir + "/ca-bundle.pem"} {
		if found := text(t, root, path); found != want {
			t.Errorf("%s: %s", path, found)
		}
	}
	if found := text(t, root, bundles[1]); found != "other\n"+marker+two {
		t.Errorf("%s: %s", bundles[1], found)
	}
	if _, err := os.Lstat(filepath.Join(root, bundles[2])); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", bundles[2], err)
	}
	if info, err := os.Lstat(filepath.Join(root, bundles[3])); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("a link was replaced by a file")
	}
	if text(t, root, ownDir+"/ca.pem") != two || text(t, root, localDir+"/"+localName) != two {
		t.Error("the authority is not where it is looked for")
	}
	for _, path := range []string{bundles[0], ownDir + "/ca.pem", ownDir + "/ca-bundle.pem"} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "etc/ssl/certs/.agentpod-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	Anchors{CA: one, Roots: roots}.writeBelow(root)
	if found := text(t, root, bundles[0]); found != "system\n"+marker+roots+one {
		t.Errorf("with roots: %s", found)
	}
}

func TestWithoutACertificateBundleOneIsMade(t *testing.T) {
	root, one := tree(t), certificate(t, 1)
	Anchors{CA: one}.writeBelow(root)
	if text(t, root, bundles[0]) != marker+one || text(t, root, ownDir+"/ca-bundle.pem") != marker+one {
		t.Error("not made")
	}
	if _, err := os.Lstat(filepath.Join(root, localDir)); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", localDir, err)
	}
}

func TestCertificateBundlesInAnUnusualTreeAreLeftAlone(t *testing.T) {
	one := certificate(t, 1)
	for name, leave := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"a fifo":      func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a link":      func(path string) error { return os.Symlink("nowhere", path) },
		"a device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"too long":    func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), maxBundle+1), 0o644) },
		"somebody's own": func(path string) error {
			if err := os.WriteFile(path, []byte("private"), 0o600); err != nil {
				return err
			}
			return os.Chown(path, 1000, 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t)
			path := filepath.Join(root, bundles[0])
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := leave(path); err != nil {
				t.Skip(err)
			}
			before, _ := os.Lstat(path)
			Anchors{CA: one}.writeBelow(root)
			if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() || after.Size() != before.Size() {
				t.Errorf("%v, %v", after, err)
			}
			// The rest is still written.
			if text(t, root, ownDir+"/ca-bundle.pem") != marker+one || text(t, root, ownDir+"/ca.pem") != one {
				t.Error("the rest was not written")
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	root, one := tree(b), certificate(b, 1)
	put(b, filepath.Join(root, bundles[0]), strings.Repeat(one, 220<<10/len(one)))
	for i := 0; i < b.N; i++ {
		a := Anchors{CA: one, Roots: certificateOf(i)}
		if a.Check() != nil {
			b.Fatal("not taken")
		}
		a.writeBelow(root)
	}
}

// certificateOf differs each time, so that nothing stays unchanged.
func certificateOf(i int) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{0x30, 2, byte(i), byte(i >> 8)}}))
}

func TestPreparedFilesEndAsIfTheyHadBeenWrittenAtOnce(t *testing.T) {
	one, roots := certificate(t, 1), certificate(t, 2)
	names := []string{bundles[0], ownDir + "/ca.pem", ownDir + "/ca-bundle.pem", localDir + "/" + localName}
	for _, given := range []string{"", "no newline at the end"} {
		written, prepared, undone := tree(t), tree(t), tree(t)
		for _, root := range []string{written, prepared, undone} {
			if err := os.MkdirAll(filepath.Join(root, localDir), 0o755); err != nil {
				t.Fatal(err)
			}
			if given != "" {
				put(t, filepath.Join(root, bundles[0]), given)
			}
		}
		anchors := Anchors{CA: one, Roots: roots}
		anchors.writeBelow(written)
		prepareBelow(prepared).Finish(anchors)
		for _, name := range names {
			if got, want := text(t, prepared, name), text(t, written, name); got != want {
				t.Errorf("%s: %q, not %q", name, got, want)
			}
		}
		prepareBelow(undone).Undo()
		for _, name := range names[1:] {
			if data, err := os.ReadFile(filepath.Join(undone, name)); err == nil && name != ownDir+"/ca-bundle.pem" {
				t.Errorf("%s is left: %q", name, data)
			} else if strings.Contains(string(data), "AgentPod") {
				t.Errorf("%s has a marker: %q", name, data)
			}
		}
		if data, err := os.ReadFile(filepath.Join(undone, bundles[0])); given == "" && !os.IsNotExist(err) || strings.TrimSpace(string(data)) != given {
			t.Errorf("undone: %q, %v", data, err)
		}
	}
}
