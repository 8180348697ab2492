package pool

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inOwnNamespace runs the test on a thread with a mount namespace of its own, which ends with it.
func inOwnNamespace(t *testing.T, test func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts")
	}
	if _, err := exec.LookPath("mkfs.btrfs"); err != nil {
		t.Skip("needs mkfs.btrfs")
	}
	if !knowsBtrfs() {
		t.Skip("needs a kernel with btrfs")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Errorf("private: %v", err)
			return
		}
		test()
	}()
	<-done
}

// open opens a loop pool, in this thread's namespace.
func open(t *testing.T, home string) *Pool {
	t.Helper()
	for _, dir := range []string{"point", "sandboxes", "snapshots"} {
		must(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
	}
	p := New(Options{Home: home, Point: filepath.Join(home, "point"), Log: log.New(io.Discard, "", 0)})
	if info := p.Info(); info.Kind != Loop {
		t.Skipf("needs a loop pool: %s", info.Reason)
	}
	return p
}

// entry returns one that can be made.
func entry(t *testing.T, p *Pool, area Area, id string) Entry {
	t.Helper()
	e, err := p.Entry(area, id)
	must(t, err)
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
}

// STATE-8
func TestALoopPoolKeepsLimitsAndSnapshots(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		defer p.Close()
		t.Logf("%+v", p.Info())
		must(t, p.Create(entry(t, p, Sandboxes, "abcd"), 64<<20))
		dir := p.Path(entry(t, p, Sandboxes, "abcd"))
		must(t, os.Mkdir(filepath.Join(dir, "upper"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "upper/file"), make([]byte, 1<<20), 0o600))
		must(t, p.SyncEntry(entry(t, p, Sandboxes, "abcd")))
		must(t, p.Clone(entry(t, p, Sandboxes, "abcd"), entry(t, p, Snapshots, "shot"), 0))
		must(t, p.Clone(entry(t, p, Snapshots, "shot"), entry(t, p, Sandboxes, "fork"), 64<<20))
		if err := os.WriteFile(filepath.Join(p.Path(entry(t, p, Snapshots, "shot")), "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("write to a snapshot: %v", err)
		}
		must(t, os.WriteFile(filepath.Join(p.Path(entry(t, p, Sandboxes, "fork")), "upper/file"), []byte("mine"), 0o600))
		if info, err := os.Stat(filepath.Join(dir, "upper/file")); err != nil || info.Size() != 1<<20 {
			t.Errorf("the fork's write showed in the original: %v %v", info, err)
		}
		if !p.Info().Quotas {
			t.Log("this kernel has no simple quotas")
			return
		}
		if err := os.WriteFile(filepath.Join(dir, "upper/big"), make([]byte, 128<<20), 0o600); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("a large file: %v", err)
		}
		os.Remove(filepath.Join(dir, "upper/big"))
		must(t, p.Create(entry(t, p, Sandboxes, "small"), 16<<20))
		files, err := fillWithSmallFiles(p.Path(entry(t, p, Sandboxes, "small")))
		if !errors.Is(err, unix.EDQUOT) {
			t.Errorf("after %d small files: %v", files, err)
		}
		must(t, p.SyncEntry(entry(t, p, Sandboxes, "abcd")))
		bytes, counted := p.Usage(entry(t, p, Sandboxes, "small"))
		t.Logf("%d small files are %d bytes", files, bytes)
		if !counted || bytes < 4<<20 || bytes > 20<<20 {
			t.Errorf("usage %d %v", bytes, counted)
		}
		for _, id := range []string{"abcd", "fork", "small"} {
			must(t, p.Remove(entry(t, p, Sandboxes, id)))
			must(t, p.Remove(entry(t, p, Sandboxes, id)))
		}
		must(t, p.Remove(entry(t, p, Snapshots, "shot")))
		waitForSweep(t, p)
		must(t, p.Clear())
		if _, err := os.Stat(p.imagePath()); !os.IsNotExist(err) {
			t.Errorf("the image is still there: %v", err)
		}
	})
	noDevice(t, home)
}

// fillWithSmallFiles writes until it cannot, at most as many as would be four times the limit.
func fillWithSmallFiles(dir string) (int, error) {
	for n := 0; n < 100_000; n++ {
		if n%1000 == 0 {
			if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(n/1000)), 0o700); err != nil {
				return n, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n/1000), fmt.Sprintf("a-name-of-some-length-%d", n)), []byte("0123456789"), 0o600); err != nil {
			return n, err
		}
	}
	return 100_000, nil
}

func waitForSweep(t *testing.T, p *Pool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		fd, err := openDir(p.dir)
		must(t, err)
		must(t, freeDeleted(fd))
		unix.Close(fd)
		p.sweep()
		p.quotas.mu.Lock()
		left := len(p.quotas.stale)
		p.quotas.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d counts stay", left)
			return
		}
	}
}

// noDevice waits until no loop device of a file below home is left.
func noDevice(t *testing.T, home string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		output, _ := exec.Command("losetup", "-a").Output()
		if !containsText(string(output), home) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left: %s", output)
			return
		}
	}
}

func containsText(text, part string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if text[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

func TestAPoolGrowsWithItsImageAllocated(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		defer p.Close()
		before := p.Info()
		must(t, p.Create(entry(t, p, Sandboxes, "abcd"), 0))
		// The space is allocated and not written: the counts change all the same.
		file, err := os.Create(filepath.Join(p.Path(entry(t, p, Sandboxes, "abcd")), "big"))
		must(t, err)
		defer file.Close()
		must(t, unix.Fallocate(int(file.Fd()), 0, 0, before.FreeBytes-(128<<20)))
		must(t, p.grow())
		after := p.Info()
		if after.SizeBytes <= before.SizeBytes || after.FreeBytes < 2*gib {
			t.Errorf("%+v became %+v", before, after)
		}
		var stat unix.Stat_t
		must(t, unix.Stat(p.imagePath(), &stat))
		if stat.Blocks*512 < stat.Size {
			t.Errorf("the image has holes: %d of %d bytes", stat.Blocks*512, stat.Size)
		}
	})
	noDevice(t, home)
}

func TestAPoolImageIsFoundAgainAndADamagedOneIsSetAside(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		must(t, p.Create(entry(t, p, Sandboxes, "abcd"), 0))
		must(t, os.WriteFile(filepath.Join(p.Path(entry(t, p, Sandboxes, "abcd")), "file"), []byte("kept"), 0o600))
		// An open file stands in for a sandbox that outlives podhost: the device must be found, not made
		// again.
		holder, err := os.Open(filepath.Join(p.Path(entry(t, p, Sandboxes, "abcd")), "file"))
		must(t, err)
		device := p.device.Name()
		p.Close()
		p = open(t, home)
		if p.device.Name() != device {
			t.Errorf("a second device %s beside %s", p.device.Name(), device)
		}
		if data, err := os.ReadFile(filepath.Join(p.Path(entry(t, p, Sandboxes, "abcd")), "file")); err != nil || string(data) != "kept" {
			t.Errorf("%q %v", data, err)
		}
		must(t, holder.Close())
		p.Close()
		noDevice(t, home)
		image, err := os.OpenFile(p.imagePath(), os.O_WRONLY, 0)
		must(t, err)
		_, err = image.WriteAt(make([]byte, 1<<20), 0)
		must(t, err)
		must(t, image.Close())
		p = open(t, home)
		defer p.Close()
		if _, err := os.Stat(p.imagePath() + ".damaged"); err != nil {
			t.Error(err)
		}
	})
	noDevice(t, home)
}

func TestInodeNumbersContinueAfterThoseOfTheEntryBelow(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		defer p.Close()
		numbers := map[uint64]string{}
		// fill writes files, and fails if two have the same number.
		fill := func(e Entry) {
			upper := filepath.Join(p.Path(e), "upper")
			must(t, os.Mkdir(upper, 0o700))
			for i := 0; i < 50; i++ {
				path := filepath.Join(upper, fmt.Sprint(i))
				must(t, os.WriteFile(path, []byte(e.ID), 0o600))
				var stat unix.Stat_t
				must(t, unix.Lstat(path, &stat))
				if first, there := numbers[stat.Ino]; there {
					t.Errorf("%s has the number of %s", path, first)
				}
				numbers[stat.Ino] = path
			}
		}
		first := entry(t, p, Sandboxes, "box1")
		must(t, p.Create(first, 0))
		fill(first)
		must(t, p.Clone(first, entry(t, p, Snapshots, "shot1"), 0))
		for i := 2; i < 5; i++ {
			below := entry(t, p, Snapshots, fmt.Sprintf("shot%d", i-1))
			box := entry(t, p, Sandboxes, fmt.Sprintf("box%d", i))
			must(t, p.CreateAfter(box, below, 64<<20))
			if names, err := os.ReadDir(p.Path(box)); err != nil || len(names) != 1 || names[0].Name() != aside {
				t.Errorf("it begins with %v %v", names, err)
			}
			fill(box)
			must(t, p.Clone(box, entry(t, p, Snapshots, fmt.Sprintf("shot%d", i)), 0))
			if err := os.WriteFile(filepath.Join(p.Path(box), "upper/big"), make([]byte, 128<<20), 0o600); p.Info().Quotas && !errors.Is(err, unix.EDQUOT) {
				t.Errorf("a large file: %v", err)
			}
		}
		// A plain directory has no numbers to continue from.
		plain := Entry{Area: Sandboxes, ID: "plain"}
		must(t, p.CreateAfter(plain, entry(t, p, Snapshots, "shot1"), 0))
		if names, err := os.ReadDir(p.Path(plain)); err != nil || len(names) > 0 {
			t.Errorf("%v %v", names, err)
		}
	})
	noDevice(t, home)
}

// A sandbox must not find the pool full while podhost enlarges it.
func TestAPoolGrowsWhileHalfASecondOfWritingFits(t *testing.T) {
	for size, want := range map[int64]int64{firstSize: gib, 6 * gib: 2 * gib, 100 * gib: 2 * gib, smallestSize: 256 * mib} {
		roomy := allocation{size: size, free: want, unallocated: gib, metadataFree: gib}
		if roomy.isLow() {
			t.Errorf("%d MiB of %d free: it grows", roomy.free/mib, size/mib)
		}
		if roomy.free--; !roomy.isLow() {
			t.Errorf("less than %d MiB of %d free: it does not grow", want/mib, size/mib)
		}
	}
}

// STATE-8
func TestTheDiskReserveFitsAnyDisk(t *testing.T) {
	for size, want := range map[int64]int64{64 * mib: 64 * mib / 10, 10 * gib: 512 * mib, 40 * gib: 2 * gib, 1000 * gib: 5 * gib} {
		if got := (space{size: size}).reserve(); got != want {
			t.Errorf("of %d: %d, want %d", size, got, want)
		}
	}
}
