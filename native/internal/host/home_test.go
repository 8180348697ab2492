package host

import (
	"os"
	"path/filepath"
	"testing"

	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
)

func TestTheStoredRangeOfIDsIsChosenOnce(t *testing.T) {
	home := t.TempDir()
	first, err := storedRange(home, false)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := storedRange(home, false); err != nil || second != first || first.Base%ids.Count != 0 {
		t.Fatalf("%v then %v, %v", first, second, err)
	}
	if rootless, _ := storedRange(home, true); rootless != (mount.Range{Base: 1, Count: ids.Count}) {
		t.Fatalf("rootless %v", rootless)
	}
	if err := os.WriteFile(filepath.Join(home, "host.json"), []byte(`{"uidBase":0,"uids.Count":65536}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := storedRange(home, false); err == nil {
		t.Fatalf("a range that begins at root was accepted: %v", r)
	}
}

func TestAStateDirectoryIsServedWhileItsLockIsHeld(t *testing.T) {
	home := t.TempDir()
	if IsServed(home) {
		t.Fatal("a state directory without a lock file is served")
	}
	lock, err := Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	if !IsServed(home) || !IsServed(home) {
		t.Fatal("a state directory whose lock is held is not served")
	}
	lock.Close()
	if IsServed(home) {
		t.Fatal("a state directory whose lock was released is served")
	}
}
