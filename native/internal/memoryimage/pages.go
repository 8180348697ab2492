package memoryimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	pageSize = 4096
	// readAtOnce is how much is read at a time.
	readAtOnce = 256 * pageSize
)

// DescribePages describes the memory of a machine: a large file, most of it holes. Its sum covers the pages
// that are not zero, with their places, so that a copy with other holes has the same.
func DescribePages(path string) (File, error) {
	file, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return File{}, err
	}
	described := File{Name: filepath.Base(path), Bytes: info.Size()}
	buffer := make([]byte, readAtOnce)
	for at := int64(0); at < info.Size(); {
		begin, end, err := nextData(file, at)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return File{}, err
		}
		for at = begin &^ (pageSize - 1); at < end; {
			part := buffer
			if left := end - at; left < readAtOnce {
				part = buffer[:left]
			}
			n, err := file.ReadAt(part, at)
			if err != nil && !errors.Is(err, io.EOF) {
				return File{}, fmt.Errorf("read %s: %w", described.Name, err)
			}
			if n == 0 {
				return described, nil
			}
			described.Sum = addPages(described.Sum, at, buffer[:n])
			at += int64(n)
		}
	}
	return described, nil
}

// nextData returns where the next part that is no hole begins and ends.
func nextData(file *os.File, at int64) (begin, end int64, err error) {
	if begin, err = file.Seek(at, unix.SEEK_DATA); err != nil {
		return 0, 0, err
	}
	end, err = file.Seek(begin, unix.SEEK_HOLE)
	return begin, end, err
}

var zeroPage [pageSize]byte

func addPages(sum uint32, at int64, data []byte) uint32 {
	var place [8]byte
	for from := 0; from < len(data); from += pageSize {
		page := data[from:]
		if len(page) > pageSize {
			page = page[:pageSize]
		}
		if bytes.Equal(page, zeroPage[:len(page)]) {
			continue
		}
		binary.LittleEndian.PutUint64(place[:], uint64(at)+uint64(from))
		sum = crc32.Update(crc32.Update(sum, castagnoli, place[:]), castagnoli, page)
	}
	return sum
}

// CheckPages compares a file with its description. what names the image in errors.
func (f File) CheckPages(path, what string) error {
	found, err := DescribePages(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return damaged(what, "a file of it is missing")
	case errors.Is(err, unix.EIO):
		return damaged(what, "a part of it cannot be read")
	case err != nil:
		return err
	case found.Bytes != f.Bytes:
		return damaged(what, fmt.Sprintf("%s has %d bytes instead of %d", f.Name, found.Bytes, f.Bytes))
	case found.Sum != f.Sum:
		return damaged(what, fmt.Sprintf("the content of %s has changed", f.Name))
	}
	return nil
}
