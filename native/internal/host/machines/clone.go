package machines

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// lookPath finds a program, also where Debian keeps it off an ordinary PATH.
func lookPath(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"} {
		if info, err := os.Stat(dir + name); err == nil && info.Mode().IsRegular() {
			return dir + name, nil
		}
	}
	return exec.LookPath(name)
}

// cloneFile makes a copy of a file. In a pool of btrfs the two share their blocks.
func cloneFile(from, to string) (*os.File, error) {
	source, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.IoctlFileClone(int(target.Fd()), int(source.Fd()))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		err = copySparse(source, target)
	}
	if err != nil {
		target.Close()
		return nil, fmt.Errorf("copy %s: %w", from, err)
	}
	return target, nil
}

// replaceFile copies a file. The copy appears under its name when it is complete.
func replaceFile(from, to string) error {
	part := to + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := cloneFile(from, part)
	if err != nil {
		return err
	}
	err = file.Sync()
	file.Close()
	if err != nil {
		return err
	}
	return os.Rename(part, to)
}

// copySparse copies the parts of a file that are in use.
func copySparse(source, target *os.File) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := target.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		begin, err := source.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		end, err := source.Seek(begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := source.Seek(begin, io.SeekStart); err != nil {
			return err
		}
		if _, err := target.Seek(begin, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(target, source, end-begin); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// usedBytes is how much of a sparse file is in use.
func usedBytes(file *os.File) (int64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return 0, err
	}
	return stat.Blocks * 512, nil
}
