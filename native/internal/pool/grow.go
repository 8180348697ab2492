package pool

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// step is how much the pool grows at a time.
	step         = 4 * gib
	smallestStep = 256 * mib
	growEvery    = 100 * time.Millisecond
	sweepEvery   = 5 * time.Second
)

// Maintain opens the pool, grows it in time while isBusy, and removes unused quotas. It returns when ctx
// ends.
func (p *Pool) Maintain(ctx context.Context, isBusy func() bool) {
	p.Prepare()
	ticker := time.NewTicker(growEvery)
	defer ticker.Stop()
	var refused, swept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := time.Now(); now.Sub(swept) > sweepEvery {
			swept = now
			p.sweep()
		}
		if !isBusy() {
			continue
		}
		if err := p.grow(); err != nil && time.Since(refused) > time.Minute {
			refused = time.Now()
			p.o.Log.Printf("pool: cannot grow: %v", err)
		}
	}
}

// grow enlarges a loop pool that is running out of space, as long as the disk below keeps one and a half
// times its reserve. Below the reserve itself nothing new is made, and a pool that grew down to it would
// cause that.
func (p *Pool) grow() error {
	// Allocating takes a while on a busy disk; only unmounting has to wait for it.
	p.growing.Lock()
	defer p.growing.Unlock()
	p.mu.Lock()
	isLoop := p.opened && p.kind == Loop
	p.mu.Unlock()
	if !isLoop || !p.inside().isLow() {
		return nil
	}
	disk, err := spaceOf(p.o.Home)
	if err != nil {
		return err
	}
	more := least(step, disk.free-disk.reserve()*3/2) &^ (mib - 1)
	fd, err := openDir(p.dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if more < smallestStep {
		if time.Since(p.freed) < time.Second {
			return nil
		}
		p.freed = time.Now()
		return freeDeleted(fd)
	}
	begin, size := time.Now(), fileSize(p.image)+more
	if err := allocate(p.image, size); err != nil {
		return err
	}
	if err := p.fit(fd); err != nil {
		return err
	}
	p.o.Log.Printf("pool: grown to %d MiB in %.1f ms", size/mib, time.Since(begin).Seconds()*1e3)
	return nil
}

// fit tells the device, and the file system on it, the length of the image.
func (p *Pool) fit(dir int) error {
	if err := unix.IoctlSetInt(int(p.device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return os.NewSyscallError("loop capacity", err)
	}
	return resizeToDevice(dir)
}

func (p *Pool) sweep() {
	p.mu.Lock()
	dir, on := p.dir, p.opened && p.quotas.on()
	p.mu.Unlock()
	if !on {
		return
	}
	if fd, err := openDir(dir); err == nil {
		p.quotas.sweep(fd)
		unix.Close(fd)
	}
}

// Clear removes the pool if it is empty. The next use makes a new one.
func (p *Pool) Clear() error {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleared = true
	if !p.opened || p.dir == "" {
		return nil
	}
	for _, area := range areas {
		if entries, err := os.ReadDir(filepath.Join(p.dir, string(area))); err != nil || len(entries) > 0 {
			return err
		}
	}
	if p.kind == Loop {
		p.unmount()
		p.opened = false
		return os.Remove(p.imagePath())
	}
	for _, area := range areas {
		if err := os.Remove(filepath.Join(p.dir, string(area))); err != nil {
			return err
		}
	}
	p.opened = false
	return os.Remove(p.dir)
}

// Close closes the pool. Its mount ends with podhost's namespace, its device with the last sandbox.
func (p *Pool) Close() {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind == Loop && p.opened {
		p.unmount()
	}
	p.opened, p.fault = false, nil
}

func (p *Pool) unmount() {
	p.counters.close()
	unix.Unmount(p.o.Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	p.device.Close()
	p.image.Close()
	p.image, p.device, p.dir, p.quotas.sysfs = nil, nil, "", ""
}
