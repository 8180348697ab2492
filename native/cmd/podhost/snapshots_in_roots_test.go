package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onEachPool runs a test on the pool that this machine has, and on one of plain directories.
func onEachPool(t *testing.T, test func(t *testing.T, d *daemon, c *client)) {
	t.Run("here", func(t *testing.T) {
		d := start(t)
		c := d.dial()
		defer c.close()
		test(t, d, c)
	})
	t.Run("copy", func(t *testing.T) {
		// Without mkfs.btrfs in its PATH, podhost makes no pool.
		d := startWith(t, daemon{env: []string{"PATH=/nowhere"}})
		c := d.dial()
		defer c.close()
		if kind := c.must("hello", map[string]any{})["pool"].(map[string]any)["kind"]; kind != "copy" {
			t.Skipf("the temporary directory has a pool: %v", kind)
		}
		test(t, d, c)
	})
}

// over is a root with snapshots over a base.
func over(base map[string]any, ids ...string) map[string]any {
	root := map[string]any{}
	for key, value := range base {
		root[key] = value
	}
	if len(ids) > 0 {
		root["over"] = ids
	}
	return map[string]any{"root": root}
}

var hostRoot = map[string]any{"kind": "host"}

// step makes a sandbox over snapshots, changes it, and makes the next snapshot of it.
func (c *client) step(shot string, root map[string]any, do func(made map[string]any)) {
	c.t.Helper()
	made := c.create("step"+shot, root)
	do(made)
	c.must("sandbox.stop", id("step"+shot))
	c.must("snapshot.create", map[string]any{"id": shot, "owner": "test", "sandbox": "step" + shot})
	c.must("sandbox.destroy", id("step"+shot))
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// treeBelow describes every file below a directory of a sandbox: its type, owner and content.
func treeBelow(t *testing.T, made map[string]any, dir string) map[string]string {
	t.Helper()
	found, root := map[string]string{}, inside(made, dir)
	must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d:%d", info.Mode(), int(stat.Uid)-firstID(made), int(stat.Gid)-firstID(made))
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d links %q", stat.Nlink, data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			text += " -> " + target
		}
		found[strings.TrimPrefix(path, root)] = text
		return nil
	}))
	return found
}

func sameTree(t *testing.T, want, got map[string]string) {
	t.Helper()
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s is %q, and was %q", path, got[path], text)
		}
	}
	for path, text := range got {
		if want[path] == "" {
			t.Errorf("%s is new: %q", path, text)
		}
	}
}

// firstID is the id outside of root inside.
func firstID(made map[string]any) int { return int(made["ids"].(map[string]any)["base"].(float64)) }

// give gives files that the test wrote from outside to root inside.
func give(t *testing.T, made map[string]any, dir string) {
	t.Helper()
	base := firstID(made)
	must(t, filepath.WalkDir(inside(made, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if stat, ok := info.Sys().(*syscall.Stat_t); err == nil && ok && stat.Uid == 0 {
			err = os.Lchown(path, base, base)
		}
		return err
	}))
}

// eachIsItsOwn fails if two files look like one, which happens when two file systems use the same numbers.
func eachIsItsOwn(t *testing.T, made map[string]any, dir string) {
	t.Helper()
	names := map[[2]uint64]string{}
	must(t, filepath.WalkDir(inside(made, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		key := [2]uint64{uint64(stat.Dev), stat.Ino}
		if first, there := names[key]; there && (entry.IsDir() || stat.Nlink == 1) {
			t.Errorf("%s and %s are taken for one file", first, path)
		}
		names[key] = path
		return nil
	}))
}

// baseLayer imports a layer with a tree to change.
func baseLayer(t *testing.T, d *daemon, c *client) map[string]any {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, dir := range []string{"base", "base/replaced", "base/emptied", "base/renamed", "base/renamed/deep", "base/kept"} {
		must(t, w.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	for _, file := range []string{"base/gone", "base/back", "base/changed", "base/replaced/old", "base/emptied/old", "base/renamed/deep/file", "base/kept/file"} {
		must(t, w.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(file))}))
		_, err := w.Write([]byte(file))
		must(t, err)
	}
	must(t, w.Close())
	sum := sha256.Sum256(data.Bytes())
	digest := hex.EncodeToString(sum[:])
	write(t, filepath.Join(d.home, "tmp/base.tar"), data.String())
	c.must("layer.import", map[string]any{"digest": digest, "file": "base.tar"})
	return map[string]any{"kind": "layers", "layers": []string{digest}}
}

// many writes so many files that their numbers would collide if each upper numbered them from the same start.
func many(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o755))
	for i := 0; i < 200; i++ {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(dir[len(dir)-5:]), 0o644))
	}
}

// firstStep deletes, replaces, renames and links.
func firstStep(t *testing.T, made map[string]any) {
	t.Helper()
	defer give(t, made, "/base")
	at := func(name string) string { return inside(made, "/base/"+name) }
	must(t, os.Remove(at("gone")), os.Remove(at("back")))
	// A directory that is made again hides the one below it.
	must(t, os.RemoveAll(at("replaced")), os.Mkdir(at("replaced"), 0o700), os.WriteFile(at("replaced/new"), []byte("new"), 0o600))
	must(t, os.Remove(at("emptied/old")))
	if err := os.Rename(at("renamed"), at("elsewhere")); !errors.Is(err, unix.EXDEV) {
		t.Errorf("a rename that the upper could not say: %v", err)
	}
	if output, err := exec.Command("mv", at("renamed"), at("elsewhere")).CombinedOutput(); err != nil {
		t.Fatalf("mv: %v %s", err, output)
	}
	// A new directory can be renamed.
	must(t, os.Mkdir(at("made"), 0o755), os.WriteFile(at("made/file"), nil, 0o644), os.Rename(at("made"), at("called")))
	must(t, os.WriteFile(at("one"), []byte("linked"), 0o644), os.Link(at("one"), at("two")))
	must(t, os.Symlink("one", at("link")), unix.Mkfifo(at("pipe"), 0o600), os.Chmod(at("kept"), 0o750))
	put(t, at("changed"), "by the first")
	many(t, at("in-step1"))
}

// secondStep undoes some of it and does more.
func secondStep(t *testing.T, made map[string]any) {
	t.Helper()
	defer give(t, made, "/base")
	at := func(name string) string { return inside(made, "/base/"+name) }
	if _, err := os.Lstat(at("gone")); !os.IsNotExist(err) {
		t.Errorf("a removed file came back: %v", err)
	}
	// A removed path comes back as something else, a directory becomes a file, and one of two names is
	// removed.
	must(t, os.Mkdir(at("back"), 0o755), os.WriteFile(at("back/file"), []byte("back"), 0o644))
	must(t, os.RemoveAll(at("replaced")), os.WriteFile(at("replaced"), []byte("a file now"), 0o644))
	must(t, os.Remove(at("two")), os.RemoveAll(at("elsewhere/deep")), os.Mkdir(at("elsewhere/deep"), 0o755))
	must(t, os.WriteFile(at("emptied/second"), []byte("second"), 0o644), os.WriteFile(at("own"), []byte("own"), 0o644))
	put(t, at("changed"), "by the second")
	many(t, at("in-step2"))
}

func TestASnapshotShowsTheSameFilesBelowASandbox(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		base := baseLayer(t, d, c)
		var first, second map[string]string
		c.step("shot1", over(base), func(made map[string]any) {
			firstStep(t, made)
			first = treeBelow(t, made, "/base")
		})
		c.step("shot2", over(base, "shot1"), func(made map[string]any) {
			sameTree(t, first, treeBelow(t, made, "/base"))
			secondStep(t, made)
			second = treeBelow(t, made, "/base")
			eachIsItsOwn(t, made, "/base")
		})
		made := c.create("last1", over(base, "shot1", "shot2"))
		health(t, made["socket"].(string))
		sameTree(t, second, treeBelow(t, made, "/base"))
		many(t, inside(made, "/base/in-step3"))
		eachIsItsOwn(t, made, "/base")
		// No sandbox's writes appear in the snapshots that others use.
		other := c.create("last2", over(base, "shot1", "shot2"))
		put(t, inside(made, "/base/changed"), "by the third")
		must(t, os.RemoveAll(inside(made, "/base/elsewhere")))
		sameTree(t, second, treeBelow(t, other, "/base"))
		alone := c.create("last3", over(base, "shot1"))
		sameTree(t, first, treeBelow(t, alone, "/base"))
		// A start uses the same files.
		c.must("sandbox.stop", id("last1"))
		made = c.must("sandbox.start", c.args("last1", over(base, "shot1", "shot2")))
		if text(t, inside(made, "/base/changed")) != "by the third" || text(t, inside(made, "/base/own")) != "own" {
			t.Error("a start lost files")
		}
		c.fails("invalid_argument", "sandbox.differs", "sandbox.start", c.args("last1", over(base, "shot1")))
		d.destroyAll()
		d.nothingLeft()
	})
}

// aProgram is a file of the host's /usr that no sandbox of these tests runs.
const aProgram = "/usr/bin/tsort"

func TestSnapshotsCoverEachDirectoryOfTheHost(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		machine, before, after := "", newAuthority(t), newAuthority(t)
		c.step("shot1", over(hostRoot), func(made map[string]any) {
			machine = text(t, inside(made, "/etc/machine-id"))
			initialize(t, made, fmt.Sprintf(`{"trust":{"ca":%q,"roots":""}}`, before))
			user := firstID(made) + 1000
			must(t, os.Chown(inside(made, "/opt"), user, user))
			script := "rm " + aProgram + " /etc/profile && echo one > /usr/local/one && echo one > /root/one && echo 1.2.3.4 old >> /etc/hosts"
			if output, code := sh(t, made, script); code != 0 {
				t.Fatal(output)
			}
		})
		c.step("shot2", over(hostRoot, "shot1"), func(made map[string]any) {
			initialize(t, made, `{}`)
			script := "test ! -e " + aProgram + " && cat /usr/local/one /root/one && rm /usr/local/one && echo two > /usr/local/two"
			put(t, inside(made, "/opt/two"), "two\n")
			if output, code := sh(t, made, script); code != 0 || output != "one\none\n" {
				t.Errorf("%d %s", code, output)
			}
		})
		change := over(hostRoot, "shot1", "shot2")
		change["hostname"] = "other"
		made := c.create("last1", change)
		initialize(t, made, fmt.Sprintf(`{"trust":{"ca":%q,"roots":""}}`, after))
		output, code := sh(t, made, "cat /root/one /usr/local/two /opt/two; stat -c '%U %a' /opt; ls /usr/local/one "+aProgram+" /etc/profile; hostname; cat /etc/hostname")
		want := "one\ntwo\ntwo\nuser 755\nls: cannot access '/usr/local/one': No such file or directory\nls: cannot access '" + aProgram +
			"': No such file or directory\nls: cannot access '/etc/profile': No such file or directory\nother\nother\n"
		if output != want {
			t.Errorf("%d %q", code, output)
		}
		if now := text(t, inside(made, "/etc/machine-id")); now == machine || len(now) != 33 {
			t.Errorf("machine-id %q after %q", now, machine)
		}
		if hosts := text(t, inside(made, "/etc/hosts")); strings.Contains(hosts, "old") || !strings.Contains(hosts, "127.0.1.1 other\n") {
			t.Errorf("hosts: %s", hosts)
		}
		if trusted := text(t, inside(made, "/etc/ssl/certs/ca-certificates.crt")); strings.Contains(trusted, before) || !strings.Contains(trusted, after) {
			t.Error("what another sandbox trusted is still trusted, or what this one does is not")
		}
		if _, err := os.Stat(aProgram); err != nil {
			t.Errorf("the host's own: %v", err)
		}
		for _, dir := range []string{"/usr/local", "/opt", "/etc"} {
			eachIsItsOwn(t, made, dir)
		}
		c.must("sandbox.destroy", id("last1"))
		d.nothingLeft()
	})
}

// ENV-10
func TestASnapshotInUseIsNotRemoved(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		used := func(id string) {
			t.Helper()
			c.fails("conflict", "snapshot.used", "snapshot.remove", map[string]any{"id": id})
		}
		c.step("shot1", over(hostRoot), func(made map[string]any) { put(t, inside(made, "/root/one"), "one") })
		made := c.create("user1", over(hostRoot, "shot1"))
		used("shot1")
		c.must("sandbox.pause", id("user1"))
		used("shot1")
		c.must("sandbox.resume", map[string]any{"id": "user1", "deadlineMs": 0})
		put(t, inside(made, "/root/two"), "two")
		c.must("sandbox.stop", id("user1"))
		used("shot1")
		// The next podhost knows it too.
		c.close()
		d.kill()
		d.run()
		*c = *d.dial()
		used("shot1")
		made2 := c.must("snapshot.create", map[string]any{"id": "shot2", "owner": "test", "sandbox": "user1"})
		if root := made2["root"].(map[string]any); fmt.Sprint(root["over"]) != "[shot1]" {
			t.Errorf("the snapshot's root is %v", root)
		}
		c.must("sandbox.destroy", id("user1"))
		used("shot1")
		// A fork of the second also uses the first.
		c.fails("invalid_argument", "snapshot.root", "sandbox.create", c.args("fork1", map[string]any{"snapshot": "shot2"}))
		change := over(hostRoot, "shot1")
		change["snapshot"] = "shot2"
		fork := c.create("fork1", change)
		if text(t, inside(fork, "/root/one")) != "one" || text(t, inside(fork, "/root/two")) != "two" {
			t.Error("the fork lacks files")
		}
		eachIsItsOwn(t, fork, "/etc")
		c.must("snapshot.remove", id("shot2"))
		used("shot1")
		c.must("sandbox.destroy", id("fork1"))
		for i := 0; i < 2; i++ {
			c.must("snapshot.remove", id("shot1"))
		}
		c.fails("not_found", "snapshot.absent", "sandbox.create", c.args("user2", over(hostRoot, "shot1")))
		if entries, err := os.ReadDir(filepath.Join(d.home, "snapshots")); err != nil || len(entries) > 0 {
			t.Errorf("left: %v %v", entries, err)
		}
		c.expect("absent", "user2")
		d.nothingLeft()
	})
}

func TestSnapshotsOfOtherRootsCanCoverARoot(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		for name, base := range map[string]map[string]any{"layers": baseLayer(t, d, c), "host": hostRoot} {
			at := func(made map[string]any, path string) string { return inside(made, "/usr/lib/"+path) }
			dir := func(made map[string]any, path string) {
				must(t, os.MkdirAll(at(made, path), 0o755))
				many(t, at(made, path+"/files"))
				give(t, made, "/usr/lib/"+path)
			}
			project, extra, other, shot := name+"1", name+"2", name+"3", name+"4"
			c.step(project, over(base), func(made map[string]any) { dir(made, "project"); dir(made, "more") })
			c.step(extra, over(base), func(made map[string]any) { dir(made, "extra") })
			c.step(other, over(base), func(made map[string]any) { dir(made, "other") })
			isThere := func(made map[string]any, dirs ...string) {
				t.Helper()
				for _, path := range dirs {
					if names, err := os.ReadDir(at(made, path+"/files")); err != nil || len(names) != 200 {
						t.Errorf("%s: %s has %d files: %v", name, path, len(names), err)
					}
				}
			}
			// The first has the highest numbers, and is not the topmost.
			made := c.create("box"+name, over(base, project, extra))
			isThere(made, "project", "more", "extra")
			dir(made, "own")
			numbers := map[uint64]bool{}
			for _, path := range []string{"project", "more", "extra"} {
				for number := range numbersIn(t, at(made, path)) {
					numbers[number] = true
				}
			}
			for number, path := range numbersIn(t, at(made, "own")) {
				if numbers[number] {
					t.Errorf("%s: %s has the number of another", name, path)
				}
			}
			c.must("sandbox.stop", id("box"+name))
			c.must("snapshot.create", map[string]any{"id": shot, "owner": "test", "sandbox": "box" + name})
			change := over(base, project, extra, other)
			change["snapshot"] = shot
			// Its upper has its own /usr/lib by now, through which others are visible.
			fork := c.create("fork"+name, change)
			isThere(fork, "project", "more", "extra", "own", "other")
			eachRestarted := c.args("fork"+name, over(base, project, extra, other))
			c.must("sandbox.stop", id("fork"+name))
			fork = c.must("sandbox.start", eachRestarted)
			isThere(fork, "own", "other")
			c.fails("conflict", "snapshot.used", "snapshot.remove", id(other))
			for _, ids := range [][]string{{project}, {extra, project}, {project, other, extra}, {project, other}} {
				change := over(base, ids...)
				change["snapshot"] = shot
				c.fails("invalid_argument", "snapshot.root", "sandbox.create", c.args("none"+name, change))
			}
		}
		d.destroyAll()
		d.nothingLeft()
	})
}

// numbersIn are the inode numbers of all files below a directory, with a path for each.
func numbersIn(t *testing.T, dir string) map[uint64]string {
	t.Helper()
	found := map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		err = unix.Lstat(path, &stat)
		found[stat.Ino] = path
		return err
	}))
	return found
}

func TestTheSizeOfASnapshotCountsOnlyItsOwnFiles(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		c.step("shot1", over(hostRoot), func(made map[string]any) {
			must(t, os.WriteFile(inside(made, "/root/large"), bytes.Repeat([]byte("x"), 8<<20), 0o600))
		})
		c.step("shot2", over(hostRoot, "shot1"), func(made map[string]any) { put(t, inside(made, "/root/small"), "small") })
		sizes := map[string]float64{}
		for _, one := range c.must("snapshot.list", map[string]any{})["snapshots"].([]any) {
			fields := one.(map[string]any)
			sizes[fields["id"].(string)] = fields["sizeBytes"].(float64)
		}
		if sizes["shot1"] < 8<<20 || sizes["shot1"] > 10<<20 || sizes["shot2"] > 1<<20 {
			t.Errorf("%v", sizes)
		}
	})
}

func TestConcurrentRemoveAndUseOfASnapshotHaveOneWinner(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	c.create("orig1", nil)
	c.must("sandbox.stop", id("orig1"))
	second := d.dial()
	defer second.close()
	var made, refused int
	for i := 0; i < 20; i++ {
		shot, box := fmt.Sprintf("shot%d", i), fmt.Sprintf("race%d", i)
		c.must("snapshot.create", map[string]any{"id": shot, "owner": "test", "sandbox": "orig1"})
		var wait sync.WaitGroup
		var removal, creation string
		wait.Add(1)
		go func() {
			defer wait.Done()
			_, removal = second.call("snapshot.remove", id(shot))
		}()
		_, creation = c.call("sandbox.create", c.args(box, over(hostRoot, shot)))
		wait.Wait()
		switch {
		case creation == "" && removal == "conflict":
			made++
			c.expect("running", box)
			c.must("sandbox.destroy", id(box))
			c.must("snapshot.remove", id(shot))
		case creation == "not_found" && removal == "":
			refused++
			c.expect("absent", box)
		default:
			t.Errorf("the create answered %q and the removal %q", creation, removal)
		}
	}
	t.Logf("%d made, %d refused", made, refused)
	c.must("sandbox.destroy", id("orig1"))
	d.nothingLeft()
}

func TestAnImportedSnapshotUsesTheSnapshotsHere(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		base := baseLayer(t, d, c)
		c.step("shot1", over(base), func(made map[string]any) { firstStep(t, made) })
		var tree map[string]string
		c.step("shot2", over(base, "shot1"), func(made map[string]any) {
			secondStep(t, made)
			tree = treeBelow(t, made, "/base")
		})
		written := c.must("snapshot.export", map[string]any{"id": "shot2", "file": "shot.tar.gz"})
		c.must("snapshot.remove", id("shot2"))
		take := map[string]any{"id": "shot3", "owner": "test", "root": over(base, "absent")["root"], "file": "shot.tar.gz", "digest": written["digest"]}
		c.fails("not_found", "snapshot.absent", "snapshot.import", take)
		take["root"] = over(base, "shot1")["root"]
		for i := 0; i < 2; i++ {
			c.must("snapshot.import", take)
		}
		c.fails("conflict", "snapshot.used", "snapshot.remove", id("shot1"))
		made := c.create("last1", over(base, "shot1", "shot3"))
		sameTree(t, tree, treeBelow(t, made, "/base"))
		eachIsItsOwn(t, made, "/base")
		c.must("sandbox.destroy", id("last1"))
		c.must("snapshot.remove", id("shot3"))
		c.must("snapshot.remove", id("shot1"))
		d.nothingLeft()
	})
}

func TestLinksInASnapshotAreNeverFollowed(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	for _, name := range []string{"etc", "tmp", ".agentpod", "opt"} {
		shot := "shot" + strings.TrimPrefix(name, ".")[:3]
		c.step(shot, over(hostRoot), func(made map[string]any) {
			// A mount on the directory blocks a rename of it, but not of its parent.
			upper := filepath.Join(d.home, "sandboxes", "step"+shot, "upper/root")
			if _, err := os.Lstat(upper); err != nil {
				matches, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/mnt/pool/sandboxes/step%s/upper/root", d.cmd.Process.Pid, shot))
				if len(matches) != 1 {
					t.Skip("the pool cannot be reached")
				}
				upper = matches[0]
			}
			must(t, os.RemoveAll(filepath.Join(upper, name)), os.Symlink("/var/tmp", filepath.Join(upper, name)))
		})
		result, code := c.call("sandbox.create", c.args("box01", over(hostRoot, shot)))
		if code != "invalid_argument" || result["reason"] != "snapshot.unsafe" {
			t.Errorf("%s as a link: %v", name, result)
		}
		c.expect("absent", "box01")
	}
	d.nothingLeft()
}

func TestASandboxOverSnapshotsStartsInAShell(t *testing.T) {
	d := startWith(t, daemon{flags: []string{"--shells", "2"}})
	c := d.dial()
	defer c.close()
	c.step("shot1", over(hostRoot), func(made map[string]any) { put(t, inside(made, "/usr/local/one"), "one") })
	ready := d.awaitShells(2)
	made := c.create("quick", over(hostRoot, "shot1"))
	if !ready[int(made["pid"].(float64))] {
		t.Fatalf("not in a shell that was ready: %v, %v", made["pid"], ready)
	}
	health(t, made["socket"].(string))
	if text(t, inside(made, "/usr/local/one")) != "one" {
		t.Error("the snapshot's file is not there")
	}
}
