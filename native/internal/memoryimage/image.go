// Package memoryimage describes the files that have the saved memory of a sandbox, so that damage is noticed
// before a sandbox starts from them. gVisor notices only some changes itself, and QEMU none.
package memoryimage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"agentpod/native/internal/hostproto"
)

// An Image describes the files of one directory.
type Image struct {
	Bytes int64 `json:"bytes"`
	// Release is that of the program that wrote them, like "gVisor 20260905". It reads only what the same
	// release has written.
	Release string `json:"release"`
	// Files is empty in records of an earlier version.
	Files []File `json:"files,omitempty"`
}

// A File is one of them.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Sum is a CRC-32C. It finds damage, not tampering: a program that can write the files can write the sum.
	Sum uint32 `json:"sum"`
}

// maxFiles is more than gVisor writes.
const maxFiles = 64

// Seal writes the files of a directory out to the disk, and describes them.
func Seal(dir, release string) (*Image, error) {
	names, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	files, err := each(dir, names, func(file *os.File) error { return file.Sync() })
	if err != nil {
		return nil, err
	}
	image := &Image{Release: release, Files: files}
	for _, file := range files {
		image.Bytes += file.Bytes
	}
	return image, syncDirectory(dir)
}

// Check compares the files of a directory with their description. what names the image in errors.
func (i *Image) Check(dir, release, what string) error {
	// Earlier versions recorded the release of gVisor alone.
	if i.Release != release && "gVisor "+i.Release != release {
		return hostproto.Errorf(hostproto.FailedPrecondition, "memory.release",
			"%s was saved by %s, and this machine has %s", what, i.Release, release)
	}
	if len(i.Files) == 0 {
		return nil
	}
	var names []string
	for _, file := range i.Files {
		names = append(names, file.Name)
	}
	found, err := each(dir, names, nil)
	if errors.Is(err, os.ErrNotExist) {
		return damaged(what, "a file of it is missing")
	}
	if err != nil {
		return err
	}
	for n, file := range i.Files {
		switch {
		case found[n].Bytes != file.Bytes:
			return damaged(what, fmt.Sprintf("%s has %d bytes instead of %d", file.Name, found[n].Bytes, file.Bytes))
		case found[n] != file:
			return damaged(what, fmt.Sprintf("the content of %s has changed", file.Name))
		}
	}
	return nil
}

func damaged(what, why string) error {
	return hostproto.Errorf(hostproto.DataLoss, "memory.damaged", "%s is damaged: %s", what, why)
}

func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 || len(entries) > maxFiles {
		return nil, fmt.Errorf("gVisor wrote %d files", len(entries))
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// each describes the files, all at the same time, after it has applied a function to them.
func each(dir string, names []string, apply func(*os.File) error) ([]File, error) {
	files, failures := make([]File, len(names)), make([]error, len(names))
	var wait sync.WaitGroup
	for n, name := range names {
		wait.Add(1)
		go func(n int, name string) {
			defer wait.Done()
			files[n], failures[n] = describe(dir, name, apply)
		}(n, name)
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func describe(dir, name string, apply func(*os.File) error) (File, error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	sum := crc32.New(castagnoli)
	// Without a buffer of its own, io.Copy would read 32 KiB at a time.
	bytes, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{file}, make([]byte, 1<<20))
	if err == nil && apply != nil {
		err = apply(file)
	}
	return File{Name: name, Bytes: bytes, Sum: sum.Sum32()}, err
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
