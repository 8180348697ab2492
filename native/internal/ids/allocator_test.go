package ids

import (
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentpod/native/internal/mount"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == mount.UserNamespaceHelper {
		if err := mount.RunUserNamespaceHelper(os.Args[2]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var stored = mount.Range{Base: 0x7F000000, Count: Count}

// machine is a registry, and the state directories that are served.
type machine struct {
	dir    string
	served map[string]bool
}

func (m machine) allocator(t *testing.T, home string) *Allocator {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives out ranges")
	}
	m.served[home] = true
	return New(Options{Home: home, Stored: stored, IsServed: func(home string) bool { return m.served[home] },
		Log: log.New(io.Discard, "", 0), registry: m.dir, occupied: []mount.Range{}})
}

func newMachine(t *testing.T) machine { return machine{t.TempDir(), map[string]bool{}} }

func take(t *testing.T, a *Allocator) *Range {
	t.Helper()
	r, err := a.Take()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (m machine) claimed(base int) bool {
	_, err := os.Lstat(filepath.Join(m.dir, strconv.Itoa(base)))
	return err == nil
}

// age makes a claim look old, so that no process can be about to use it.
func (m machine) age(t *testing.T, base int) {
	t.Helper()
	past := unix.NsecToTimeval(time.Now().Add(-time.Hour).UnixNano())
	if err := unix.Lutimes(filepath.Join(m.dir, strconv.Itoa(base)), []unix.Timeval{past, past}); err != nil {
		t.Fatal(err)
	}
}

func TestAllocatorsOfOneMachineNeverGiveARangeTwice(t *testing.T) {
	m := newMachine(t)
	seen := map[int]bool{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, home := range []string{"/one", "/two", "/three"} {
		a := m.allocator(t, home)
		for i := 0; i < 6; i++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				r, err := a.Take()
				mu.Lock()
				defer mu.Unlock()
				if err != nil || r.Shared != "" || seen[r.Base] || r.Base%Count != 0 || r.Base < lowest || r.Base+r.Count > stored.Base {
					t.Errorf("%v %v", r, err)
					return
				}
				seen[r.Base] = true
				if r.Owner < r.Base || r.Owner >= r.Base+r.Count {
					t.Errorf("its namespace belongs to %d, somebody else", r.Owner)
				}
			}()
		}
	}
	wait.Wait()
}

func TestARangeIsUsedAgainOnlyWhenItWasReleased(t *testing.T) {
	m := newMachine(t)
	a := m.allocator(t, "/home")
	first, second := take(t, a), take(t, a)
	a.Release(first.Base)
	a.Release(first.Base)
	if third := take(t, a); third != first {
		t.Errorf("a range lies idle and %d is claimed", third.Base)
	}
	if fourth := take(t, a); fourth.Base == first.Base || fourth.Base == second.Base {
		t.Errorf("%d was given twice", fourth.Base)
	}
}

func TestCloseGivesUpUnusedRanges(t *testing.T) {
	m := newMachine(t)
	a := m.allocator(t, "/home")
	used, idle := take(t, a), take(t, a)
	a.Release(idle.Base)
	a.Close()
	if !m.claimed(used.Base) || m.claimed(idle.Base) {
		t.Errorf("used claimed: %v, idle claimed: %v", m.claimed(used.Base), m.claimed(idle.Base))
	}
}

func TestTheNextPodhostKeepsRangesInUseAndGivesUpTheRest(t *testing.T) {
	m := newMachine(t)
	before := m.allocator(t, "/home")
	kept, lost := take(t, before), take(t, before)
	// Killed: nothing is closed.
	after := m.allocator(t, "/home")
	after.Keep(kept.Base)
	after.Recover()
	if !m.claimed(kept.Base) || m.claimed(lost.Base) {
		t.Fatalf("kept claimed: %v, lost claimed: %v", m.claimed(kept.Base), m.claimed(lost.Base))
	}
	after.Release(kept.Base)
	if m.claimed(kept.Base) {
		t.Error("what was released stays claimed")
	}
}

func TestARangeThatAProcessRunsAsStaysClaimed(t *testing.T) {
	m := newMachine(t)
	r := take(t, m.allocator(t, "/home"))
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(r.Base + 1000), Gid: uint32(r.Base + 1000)}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.allocator(t, "/home").Recover()
	if !m.claimed(r.Base) {
		t.Error("given up while a process runs as it")
	}
	cmd.Process.Kill()
	cmd.Wait()
	m.allocator(t, "/home").Recover()
	if m.claimed(r.Base) {
		t.Error("the control: it stays claimed without a process")
	}
}

func TestClaimsOfAnotherStateDirectoryAreRemovedOnlyIfNobodyServesIt(t *testing.T) {
	m := newMachine(t)
	served, dead, young := take(t, m.allocator(t, "/served")), take(t, m.allocator(t, "/dead")), take(t, m.allocator(t, "/dead"))
	m.served["/dead"] = false
	m.age(t, served.Base)
	m.age(t, dead.Base)
	m.allocator(t, "/mine").Recover()
	if !m.claimed(served.Base) || m.claimed(dead.Base) || !m.claimed(young.Base) {
		t.Errorf("served %v, dead %v, young %v", m.claimed(served.Base), m.claimed(dead.Base), m.claimed(young.Base))
	}
}

func TestARangeOfAnotherStateDirectoryIsNotKept(t *testing.T) {
	m := newMachine(t)
	other := take(t, m.allocator(t, "/other"))
	mine := m.allocator(t, "/mine")
	mine.Keep(other.Base)
	mine.Release(other.Base)
	if !m.claimed(other.Base) {
		t.Error("the other's claim was given up")
	}
}

func TestWhenAllRangesAreInUseSandboxesShareOne(t *testing.T) {
	m := newMachine(t)
	a := m.allocator(t, "/home")
	a.occupied = []mount.Range{{Base: lowest, Count: slots * Count}}
	one, two := take(t, a), take(t, a)
	if one.Base != stored.Base || one.Shared == "" || one.Stored != nil {
		t.Errorf("%+v", one)
	}
	if one.Owner == two.Owner {
		t.Error("two that share a range are charged as one")
	}
	a.Release(one.Base)
}

func TestRangesThatTheMachineUsesAreNotGivenOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(file, []byte("a:100000:65536\nbroken line\nb:2130706400:100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := readRanges(file, 1, 2)
	if len(found) != 2 || !Overlaps(found, stored.Base) || Overlaps(found, stored.Base-2*Count) || !Overlaps(found, 65536) {
		t.Fatalf("ranges %v", found)
	}
	users := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(users, []byte("root:x:0:0:root:/root:/bin/sh\nfar:x:1879048200:1:::\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := readRanges(users, 2, -1); len(found) != 2 || !Overlaps(found, lowest) || Overlaps(found, lowest+Count) {
		t.Fatalf("users %v", found)
	}
	a := newMachine(t).allocator(t, "/home")
	a.occupied = []mount.Range{{Base: lowest, Count: (slots - 1) * Count}}
	if r := take(t, a); r.Base != lowest+(slots-1)*Count {
		t.Errorf("%d is not the one that is free", r.Base)
	}
}
