package memoryimage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentpod/native/internal/hostproto"
)

func sealed(t *testing.T) (string, *Image) {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string]int{"checkpoint.img": 5000, "pages.img": 3 << 20} {
		data := make([]byte, size)
		for n := range data {
			data[n] = byte(n * 7)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	image, err := Seal(dir, "20260905")
	if err != nil {
		t.Fatal(err)
	}
	return dir, image
}

func TestAnImageIsDescribedWithItsSize(t *testing.T) {
	dir, image := sealed(t)
	if image.Bytes != 5000+3<<20 || len(image.Files) != 2 {
		t.Fatalf("%+v", image)
	}
	if err := image.Check(dir, "20260905", "it"); err != nil {
		t.Fatal(err)
	}
}

func TestEachChangeIsNoticed(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"a byte": func(path string) error {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = file.WriteAt([]byte{0xff}, 2<<20)
			return err
		},
		"cut":     func(path string) error { return os.Truncate(path, 1<<20) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir, image := sealed(t)
			if err := change(filepath.Join(dir, "pages.img")); err != nil {
				t.Fatal(err)
			}
			var found *hostproto.Error
			if err := image.Check(dir, "20260905", "it"); !errors.As(err, &found) || found.Reason != "memory.damaged" {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestAnotherReleaseIsRefused(t *testing.T) {
	dir, image := sealed(t)
	var found *hostproto.Error
	if err := image.Check(dir, "20270101", "it"); !errors.As(err, &found) || found.Reason != "memory.release" {
		t.Fatalf("%v", err)
	}
}

func TestAnEmptyDirectoryIsNoImage(t *testing.T) {
	if _, err := Seal(t.TempDir(), "20260905"); err == nil {
		t.Fatal("sealed")
	}
}
