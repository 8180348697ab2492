package safefs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenBeneath opens name below dir. It follows no symlink and never leaves dir.
func OpenBeneath(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&(unix.O_CREAT) != 0 {
		how.Mode = uint64(mode)
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		// EAGAIN: a rename elsewhere raced with the walk, and the kernel cannot guarantee the result.
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
}

// WriteFile replaces path in one step: a reader, or the next podhost after a kill, sees the old text or the
// new one. It does not sync: after a power cut the file may be old or empty. Use WriteFileSynced for data
// that has to survive one.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(temporary, data, mode); err != nil {
		os.Remove(temporary)
		return err
	}
	return os.Rename(temporary, path)
}

// WriteFileSynced is WriteFile for data that has to survive a power cut.
func WriteFileSynced(path string, data []byte, mode os.FileMode) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		return err
	}
	return syncDirs(filepath.Dir(path), filepath.Dir(filepath.Dir(path)))
}

func syncDirs(paths ...string) error {
	for _, path := range paths {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		err = dir.Sync()
		dir.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

var errStop = errors.New("enough")

// Usage adds up the allocated bytes below path on one file system. It stops at maxEntries, so that a tree of
// a million small files is not expensive; the result is then a lower bound.
func Usage(path string, maxEntries int) int64 {
	var total int64
	left := maxEntries
	filepath.WalkDir(path, func(_ string, entry os.DirEntry, err error) error {
		if left--; left < 0 {
			return errStop
		}
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				total += stat.Blocks * 512
			}
		}
		return nil
	})
	return total
}
