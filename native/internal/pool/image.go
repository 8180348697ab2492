package pool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstSize = 2 * gib
	// smallestSize is the smallest useful size of a loop pool, given its own overhead.
	smallestSize = 512 * mib
	mkfsTimeout  = 60 * time.Second

	// The superblock of a btrfs is at 64 KiB, and this value at byte 64 of it.
	superMagic   = "_BHRfS_M"
	superMagicAt = 0x10040
)

func (p *Pool) imagePath() string { return filepath.Join(p.o.Home, "pool.img") }

// openLoop mounts the image, and makes it first if there is none. The error is the reason why there can be
// none.
func (p *Pool) openLoop() error {
	if p.o.Rootless {
		return errors.New("an ordinary user cannot mount a pool")
	}
	if !knowsBtrfs() {
		return errors.New("this kernel has no btrfs")
	}
	var below unix.Statfs_t
	if unix.Statfs(p.o.Home, &below) == nil && (below.Type == unix.TMPFS_MAGIC || below.Type == unix.RAMFS_MAGIC) {
		// An image is allocated as a whole, which would fill the memory.
		return errors.New("the state directory is in memory")
	}
	_, err := os.Lstat(p.imagePath())
	if err == nil {
		err = p.mountWithRetry()
		if err == nil || !p.isNoBtrfs() {
			return err
		}
		p.o.Log.Printf("pool: %v: the image is not a btrfs: it is set aside, and its files are lost", err)
		err = p.setAside()
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return p.mountNew()
}

// mountNew makes an image and mounts it under another name first. So an incomplete image, or one that this
// host cannot mount, is never mistaken for a pool.
func (p *Pool) mountNew() error {
	temporary := p.imagePath() + ".new"
	err := p.makeImage(temporary)
	if err == nil {
		err = p.mountImage(temporary)
	}
	if err != nil {
		os.Remove(temporary)
		return err
	}
	if err := os.Rename(temporary, p.imagePath()); err != nil {
		p.unmount()
		os.Remove(temporary)
		return err
	}
	return nil
}

// mountRetryTime is how long to retry after a temporary failure: a podhost that was killed, and its mount,
// take a moment to disappear.
const mountRetryTime = 4 * time.Second

// mountWithRetry retries only the first time. As long as the pool is unavailable, each use tries once and
// answers.
func (p *Pool) mountWithRetry() error {
	deadline := time.Now().Add(mountRetryTime)
	for {
		err := p.mountImage(p.imagePath())
		if err == nil || p.fault != nil || !isPassing(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// isNoBtrfs reports that the image certainly contains none: it has no superblock. Any other failure to mount
// may be caused by this kernel or be temporary, and the image stays.
func (p *Pool) isNoBtrfs() bool {
	image, err := os.OpenFile(p.imagePath(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer image.Close()
	magic := make([]byte, len(superMagic))
	n, err := image.ReadAt(magic, superMagicAt)
	return (err == nil || errors.Is(err, io.EOF)) && string(magic[:n]) != superMagic
}

func knowsBtrfs() bool {
	known := func() bool {
		data, _ := os.ReadFile("/proc/filesystems")
		return strings.Contains(string(data), "\tbtrfs\n")
	}
	if !known() {
		exec.Command("modprobe", "-q", "btrfs").Run()
		exec.Command("modprobe", "-q", "loop").Run()
	}
	return known()
}

// makeImage writes a file system into the new file path.
func (p *Pool) makeImage(path string) error {
	mkfs, err := exec.LookPath("mkfs.btrfs")
	if err != nil {
		return errors.New("mkfs.btrfs is missing (apt-get install btrfs-progs)")
	}
	disk, err := spaceOf(p.o.Home)
	if err != nil {
		return err
	}
	size := least(firstSize, (disk.free-disk.reserve())/2) &^ (mib - 1)
	if size < smallestSize {
		return fmt.Errorf("the disk has %d MiB free, which is too little for a pool", disk.free/mib)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	begin := time.Now()
	err = allocate(file, size)
	allocated := time.Since(begin)
	if err == nil {
		// -K: a discard would give the allocated blocks back. One copy of the metadata is enough on one disk.
		err = run(mkfs, "--quiet", "-K", "--metadata", "single", "--data", "single", path)
	}
	if err != nil {
		return err
	}
	p.o.Log.Printf("pool: made an image of %d MiB (fallocate %.1f ms, mkfs %.1f ms)", size/mib, allocated.Seconds()*1e3, (time.Since(begin)-allocated).Seconds()*1e3)
	return nil
}

func run(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	timer := time.AfterFunc(mkfsTimeout, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v: %.500s", filepath.Base(program), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// mountImage attaches the image and mounts it only in podhost's namespace. Nothing of it is left when podhost
// and the sandboxes have ended.
func (p *Pool) mountImage(path string) error {
	image, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("pool image: %w", err)
	}
	// If the image is a copy of another, it may have holes.
	if info, err := image.Stat(); err == nil {
		if err := allocate(image, info.Size()); err != nil {
			p.o.Log.Printf("pool: the image cannot be allocated as a whole: %v", err)
		}
	}
	device, err := attach(image)
	if err != nil {
		image.Close()
		return fmt.Errorf("pool image: %w", err)
	}
	// nodiscard: a discard would punch holes into the image, and the disk might be full when they are filled
	// again.
	if err := unix.Mount(device.Name(), p.o.Point, "btrfs", unix.MS_NOATIME|unix.MS_NODEV, "nodiscard"); err != nil {
		device.Close()
		image.Close()
		return fmt.Errorf("mount the pool: %w", err)
	}
	p.image, p.device, p.dir = image, device, p.o.Point
	if err := p.finishMount(); err != nil {
		p.unmount()
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}

// finishMount prepares a mounted image: it may have grown just before podhost was killed.
func (p *Pool) finishMount() error {
	if err := makeAreas(p.dir); err != nil {
		return err
	}
	fd, err := openDir(p.dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := p.fit(fd); err != nil {
		return err
	}
	if p.id, err = fileSystemID(fd); err != nil {
		return err
	}
	if err := p.quotas.find(fd, true); err != nil {
		p.reason = "no disk limits: " + err.Error()
		return nil
	}
	p.quotas.findStale(p.numbers())
	return nil
}

// numbers are the ids of the existing subvolumes.
func (p *Pool) numbers() map[uint64]bool {
	known := map[uint64]bool{}
	for _, area := range areas {
		entries, _ := os.ReadDir(filepath.Join(p.dir, string(area)))
		for _, entry := range entries {
			fd, err := openDir(filepath.Join(p.dir, string(area), entry.Name()))
			if err != nil {
				continue
			}
			if number, err := subvolumeID(fd); err == nil {
				known[number] = true
			}
			unix.Close(fd)
		}
	}
	return known
}

// setAside keeps an image that is not a pool, for the user to look at.
func (p *Pool) setAside() error {
	target := p.imagePath() + ".damaged"
	for n := 2; ; n++ {
		if _, err := os.Lstat(target); errors.Is(err, os.ErrNotExist) {
			return os.Rename(p.imagePath(), target)
		}
		target = fmt.Sprintf("%s.damaged-%d", p.imagePath(), n)
	}
}
