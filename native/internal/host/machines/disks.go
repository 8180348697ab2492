package machines

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

const (
	mib = 1 << 20
	// defaultDiskBytes is the size of a disk without a limit.
	defaultDiskBytes = 64 << 30
	// leastDiskBytes is the smallest disk that has room for a journal.
	leastDiskBytes = 16 * mib
	makeTimeout    = 30 * time.Minute
)

// NewDisk gives a sandbox an empty disk of this size, at a path of the pool.
func (s *Store) NewDisk(path string, bytes int64) error {
	bytes = diskBytes(bytes)
	name := blankPrefix + strconv.FormatInt(bytes/mib, 10)
	if err := s.makeBlank(name, bytes); err != nil {
		return err
	}
	dir, err := s.dir(name)
	if err != nil {
		return err
	}
	file, err := cloneFile(filepath.Join(dir, diskFile), path)
	if err != nil {
		return err
	}
	return file.Close()
}

// diskBytes is the size of a disk for a limit; 0 is no limit.
func diskBytes(asked int64) int64 {
	switch {
	case asked == 0:
		return defaultDiskBytes
	case asked < leastDiskBytes:
		return leastDiskBytes
	}
	return asked / mib * mib
}

// makeBlank makes an empty file system once for each size.
func (s *Store) makeBlank(name string, bytes int64) error {
	defer s.Locks.Lock("machine " + name)()
	dir, err := s.dir(name)
	if err != nil {
		return err
	}
	if there, err := readRecord(dir, &struct{}{}); there || err != nil {
		return err
	}
	if dir, err = s.make(name); err != nil {
		return err
	}
	path := filepath.Join(dir, diskFile)
	if err := makeFile(path, bytes); err != nil {
		return err
	}
	journal := "size=16"
	if bytes < 64*mib {
		journal = "size=4"
	}
	if err := makeFileSystem("-m", "0", "-J", journal, "-E", "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0", path); err != nil {
		return err
	}
	return complete(dir, struct{}{})
}

func makeFile(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(bytes)
}

func makeFileSystem(args ...string) error {
	program, err := lookPath(makeFS)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"-q", "-F", "-b", "4096"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null"}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v: %.500s", makeFS, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Grow makes the disk of a sandbox as large as its limit, and returns how large it is. It never shrinks.
func Grow(disk *os.File, asked int64) (int64, error) {
	info, err := disk.Stat()
	if err != nil {
		return 0, err
	}
	if wanted := diskBytes(asked); asked > 0 && wanted > info.Size() {
		return wanted, disk.Truncate(wanted)
	}
	return info.Size(), nil
}

// OpenLayer opens the disk of a layer. It is made once, in the layer's own directory, and goes with it.
func (s *Store) OpenLayer(digest string) (*os.File, error) {
	defer s.Locks.Lock("disk of " + digest)()
	dir := filepath.Join(s.Home, "layers", digest)
	path := filepath.Join(dir, diskFile)
	file, err := os.Open(path)
	if !os.IsNotExist(err) {
		return file, err
	}
	tree := filepath.Join(dir, "tree")
	if _, err := os.Stat(tree); err != nil {
		return nil, hostproto.Errorf(hostproto.NotFound, "layer.absent", "there is no layer %s", digest)
	}
	if err := s.Pool.CheckSpace(); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := makeLayerDisk(tree, path+".new"); err != nil {
		os.Remove(path + ".new")
		return nil, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, err
	}
	s.Log.Printf("machines: the disk of layer %.12s took %d ms", digest, time.Since(begin).Milliseconds())
	return os.Open(path)
}

// makeLayerDisk makes a file system with the files of a tree. It has no journal, because nothing writes to
// it.
func makeLayerDisk(tree, path string) error {
	var bytes, entries int64
	err := filepath.WalkDir(tree, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		entries++
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += (info.Size() + 4095) / 4096 * 4096
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Directories, extended attributes and tables need room too. Blocks that are not used take no space.
	if err := makeFile(path, (bytes+bytes/8+entries*8192+64*mib)/mib*mib); err != nil {
		return err
	}
	if err := makeFileSystem("-m", "0", "-O", "^has_journal,^resize_inode", "-N", strconv.FormatInt(entries+entries/8+1024, 10),
		"-E", "lazy_itable_init=1", "-d", tree, path); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}
