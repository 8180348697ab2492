package files

import (
	"archive/tar"
	"os"
	"time"

	cfs "github.com/containerd/continuity/fs"
	"github.com/moby/go-archive"
	"github.com/moby/go-archive/compression"
	fscopy "github.com/tonistiigi/fsutil/copy"
)

// unpack unpacks a tar archive, compressed or not. It returns false if the file is something else.
func unpack(root, source, name, dest string, owner *fscopy.User, at *time.Time) (bool, error) {
	path, err := cfs.RootPath(source, name)
	if err != nil {
		return false, err
	}
	if !isArchive(path) {
		return false, nil
	}
	to, err := cfs.RootPath(root, dest)
	if err != nil {
		return false, err
	}
	if _, err := fscopy.MkdirAll(to, 0o755, chowner(owner), at); err != nil {
		return false, err
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	options := &archive.TarOptions{BestEffortXattrs: true}
	if owner != nil {
		options.ChownOpts = &archive.ChownOpts{UID: owner.UID, GID: owner.GID}
	}
	return true, archive.Untar(file, to, options)
}

func isArchive(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	content, err := compression.DecompressStream(file)
	if err != nil {
		return false
	}
	defer content.Close()
	_, err = tar.NewReader(content).Next()
	return err == nil
}
