package memoryimage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machineMemory is a file of 8 MiB with two pages that are not zero.
func machineMemory(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(8 << 20); err != nil {
		t.Fatal(err)
	}
	write(t, file, 5*pageSize, "one")
	write(t, file, 4<<20, "two")
	return path
}

func write(t *testing.T, file *os.File, at int64, text string) {
	t.Helper()
	if _, err := file.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

func TestAFileWithOtherHolesIsTheSameMemory(t *testing.T) {
	path := machineMemory(t)
	described, err := DescribePages(path)
	if err != nil || described.Bytes != 8<<20 || described.Sum == 0 {
		t.Fatalf("%+v, %v", described, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write(t, file, 64*pageSize, string(make([]byte, 3*pageSize)))
	if err := described.CheckPages(path, "the memory"); err != nil {
		t.Fatal(err)
	}
}

func TestChangedMemoryIsDamaged(t *testing.T) {
	for name, change := range map[string]func(file *os.File) error{
		"the content of memory has changed": func(file *os.File) error { _, err := file.WriteAt([]byte{1}, 3<<20); return err },
		"memory has 4194304 bytes":          func(file *os.File) error { return file.Truncate(4 << 20) },
		"a file of it is missing":           func(file *os.File) error { return os.Remove(file.Name()) },
	} {
		path := machineMemory(t)
		described, err := DescribePages(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = change(file)
			file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := described.CheckPages(path, "the memory"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPageThatMovedIsDamage(t *testing.T) {
	path := machineMemory(t)
	described, err := DescribePages(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write(t, file, 5*pageSize, "\x00\x00\x00")
	write(t, file, 6*pageSize, "one")
	if err := described.CheckPages(path, "the memory"); err == nil {
		t.Error("it was not noticed")
	}
}
