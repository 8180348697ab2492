package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shots makes the uppers of four snapshots: the second has none for /usr, and the fourth is empty.
func shots(t *testing.T) Plan {
	t.Helper()
	dir := t.TempDir()
	var plan Plan
	for _, name := range []string{"one", "two", "three", "four"} {
		shot := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Join(shot, "root"), 0o755))
		if name != "two" {
			must(t, os.Mkdir(filepath.Join(shot, "usr"), 0o755))
		}
		if name == "one" || name == "three" {
			must(t, os.WriteFile(filepath.Join(shot, "usr/"+name), nil, 0o644))
		}
		plan.Over = append(plan.Over, shot)
	}
	must(t, unix.Chmod(filepath.Join(dir, "four/usr"), 0o1770))
	return plan
}

func TestEachOverlayIncludesTheSnapshotsPartsOfItsDirectory(t *testing.T) {
	plan := shots(t)
	found, err := plan.snapshotLowers("/usr")
	must(t, err)
	defer found.close()
	found.add("/lower")
	if len(found.paths) != 3 || found.paths[2] != "/lower" {
		t.Fatalf("found %v", found.paths)
	}
	for i, name := range []string{"three", "one"} {
		if _, err := os.Lstat(filepath.Join(found.paths[i], name)); err != nil {
			t.Error(err)
		}
	}
	upper := t.TempDir()
	must(t, found.likeTop(upper))
	var stat unix.Stat_t
	must(t, unix.Stat(upper, &stat))
	if stat.Mode&0o7777 != 0o1770 {
		t.Errorf("the topmost is empty, and its mode is not taken: %o", stat.Mode)
	}
	for _, covered := range []string{"/opt", "/"} {
		if found, err := plan.snapshotLowers(covered); err != nil || len(found.paths) > 0 {
			t.Errorf("%s: %v %v", covered, found.paths, err)
		}
	}
	none, err := Plan{}.snapshotLowers("/usr")
	if must(t, err, none.likeTop("/nowhere")); none.paths != nil {
		t.Errorf("without snapshots: %v", none.paths)
	}
}

func TestALinkInPlaceOfASnapshotsUpperIsNotFollowed(t *testing.T) {
	plan := shots(t)
	must(t, os.Symlink("/usr", filepath.Join(plan.Over[1], "usr")))
	if found, err := plan.snapshotLowers("/usr"); err == nil {
		t.Errorf("followed to %v", found.paths)
	}
}

func TestARootThatPodhostDoesNotControlIsCheckedFirst(t *testing.T) {
	host, layers := Plan{Files: NewFiles}, Plan{Files: NewFiles}
	host.Root.Kind, layers.Root.Kind = "host", "layers"
	if !host.isOurs() || layers.isOurs() {
		t.Error("a new host root is podhost's own, and a layer is not")
	}
	for _, files := range []Files{OwnFiles, CopiedFiles} {
		taken := host
		if taken.Files = files; taken.isOurs() {
			t.Errorf("files %v", files)
		}
	}
	if host.Over = []string{"/shot"}; host.isOurs() {
		t.Error("a snapshot is what a sandbox has made of it")
	}
}
