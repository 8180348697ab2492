package host

import (
	"os"
	"path/filepath"
	"testing"

	"agentpod/native/internal/mount"
)

func TestTheIDRangeAvoidsSubordinateRangesAndStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(file, []byte("a:100000:65536\nbroken line\nb:2130706400:100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := subordinateRanges(file)
	if len(taken) != 2 || !overlaps(taken, defaultBase) || overlaps(taken, defaultBase-2*idCount) || !overlaps(taken, 65536) {
		t.Fatalf("ranges %v", taken)
	}
	home := t.TempDir()
	first, err := idRange(home, false)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := idRange(home, false); err != nil || second != first || first.Base%idCount != 0 {
		t.Fatalf("%v then %v, %v", first, second, err)
	}
	if rootless, _ := idRange(home, true); rootless != (mount.Range{Base: 1, Count: idCount}) {
		t.Fatalf("rootless %v", rootless)
	}
	if err := os.WriteFile(filepath.Join(home, "host.json"), []byte(`{"uidBase":0,"uidCount":65536}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := idRange(home, false); err == nil {
		t.Fatalf("a range that begins at root was accepted: %v", r)
	}
}

func TestAProcessIsKnownByItsStartTime(t *testing.T) {
	if startTime(os.Getpid()) == 0 || startTime(os.Getpid()) != startTime(os.Getpid()) {
		t.Fatal("this process has no start time")
	}
	if startTime(1<<30) != 0 {
		t.Fatal("a process that is not there has one")
	}
}
