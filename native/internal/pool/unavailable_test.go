package pool

import (
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

// incompatAt is where a superblock lists the features that a kernel must know to mount it. A bit that no
// kernel knows prevents that.
const incompatAt = 0x100bc + 7

// setByte changes one byte of the image, which is not mounted, and returns the old one.
func setByte(t *testing.T, path string, at int64, value byte) byte {
	t.Helper()
	image, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer image.Close()
	was := make([]byte, 1)
	_, err = image.ReadAt(was, at)
	must(t, err)
	_, err = image.WriteAt([]byte{value}, at)
	must(t, err)
	return was[0]
}

func isUnavailable(err error) bool {
	var known *hostproto.Error
	return errors.As(err, &known) && known.Code == hostproto.Unavailable && known.Reason == "pool.unavailable" && known.Hint != ""
}

func TestAPoolImageThatThisKernelCannotMountIsKeptAndTriedAgain(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		kept := entry(t, p, Sandboxes, "abcd")
		must(t, p.Create(kept, 0))
		must(t, os.WriteFile(filepath.Join(p.Path(kept), "file"), []byte("kept"), 0o600))
		p.Close()
		noDevice(t, home)
		was := setByte(t, p.imagePath(), incompatAt, 0x80)
		p = New(p.o)
		defer p.Close()
		if _, err := p.Open(); !isUnavailable(err) {
			t.Errorf("open: %v", err)
		}
		if info := p.Info(); info.Kind != Loop || info.Available || info.Reason == "" {
			t.Errorf("%+v", info)
		}
		for what, err := range map[string]error{"has": second(p.Has(kept)), "entry": second(p.Entry(Sandboxes, "efgh")), "remove": p.Remove(kept), "sync": p.SyncEntry(kept)} {
			if !isUnavailable(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if aside, _ := filepath.Glob(p.imagePath() + ".*"); len(aside) > 0 {
			t.Errorf("made or set aside: %v", aside)
		}
		noDevice(t, home)
		setByte(t, p.imagePath(), incompatAt, was)
		time.Sleep(tryAgain)
		if there, err := p.Has(kept); !there || err != nil {
			t.Errorf("afterwards: %v %v", there, err)
		}
	})
	noDevice(t, home)
}

func second[T any](_ T, err error) error { return err }

func TestATemporaryMountFailureIsRetried(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		p.Close()
		noDevice(t, home)
		// Without its mount point a pool cannot be mounted: here that stands in for any temporary failure.
		must(t, os.Remove(p.o.Point))
		p = New(p.o)
		defer p.Close()
		made := time.AfterFunc(500*time.Millisecond, func() { os.Mkdir(p.o.Point, 0o700) })
		defer made.Stop()
		if _, err := p.Open(); err != nil {
			t.Error(err)
		}
	})
	noDevice(t, home)
}

func TestThePoolIsOfTheKindThatExists(t *testing.T) {
	home := t.TempDir()
	var fs unix.Statfs_t
	must(t, unix.Statfs(home, &fs))
	if fs.Type == btrfsMagic {
		t.Skip("needs a temporary directory that is not on btrfs")
	}
	// A state directory that was on btrfs and no longer is.
	must(t, os.MkdirAll(filepath.Join(home, "pool/sandboxes/abcd/upper"), 0o700))
	p := New(Options{Home: home, Point: filepath.Join(home, "point"), Log: log.New(io.Discard, "", 0)})
	if _, err := p.Open(); !isUnavailable(err) {
		t.Errorf("open: %v", err)
	}
	if info := p.Info(); info.Kind != Btrfs || info.Available {
		t.Errorf("%+v", info)
	}
	if _, err := os.Lstat(p.imagePath()); !os.IsNotExist(err) {
		t.Errorf("an image was made: %v", err)
	}
}

func TestAVolumeWithoutAPoolIsNotReportedAsLost(t *testing.T) {
	home := t.TempDir()
	p := New(Options{Home: home, Rootless: true, Log: log.New(io.Discard, "", 0)})
	if info := p.Info(); info.Kind != Copy {
		t.Skipf("needs a pool of copies: %s", info.Kind)
	}
	lost := Entry{Sandboxes, "abcd", true}
	if _, err := p.Has(lost); !isUnavailable(err) {
		t.Errorf("has: %v", err)
	}
	must(t, p.Remove(lost))
}

func TestPlainDirectoriesInAPoolAreNotMistakenForSubvolumes(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		defer p.Close()
		plain := entry(t, p, Sandboxes, "abcd")
		must(t, os.MkdirAll(filepath.Join(p.Path(plain), "upper/root"), 0o700))
		must(t, os.WriteFile(filepath.Join(p.Path(plain), "upper/root/file"), []byte("carried"), 0o600))
		if err := p.SetLimit(plain, 1<<20); p.Info().Quotas && !errors.Is(err, errPlain) {
			t.Errorf("limit: %v", err)
		}
		must(t, p.SetLimit(plain, 0))
		if bytes, counted := p.Usage(plain); counted {
			t.Errorf("usage: %d", bytes)
		}
		shot := entry(t, p, Snapshots, "shot")
		if p.Clones(plain, shot) {
			t.Error("a directory is said to be cloned")
		}
		must(t, p.Clone(plain, shot, 0))
		if data, err := os.ReadFile(filepath.Join(p.Path(shot), "upper/root/file")); err != nil || string(data) != "carried" {
			t.Errorf("%q %v", data, err)
		}
		if !p.Clones(shot, entry(t, p, Sandboxes, "fork")) {
			t.Error("the snapshot is no subvolume")
		}
		must(t, p.Remove(plain))
		if there, err := p.Has(plain); there || err != nil {
			t.Errorf("afterwards: %v %v", there, err)
		}
		// A limit on the file system of the directory would show now.
		must(t, os.WriteFile(filepath.Join(p.dir, "big"), make([]byte, 8<<20), 0o600))
	})
	noDevice(t, home)
}
