package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func volumeAt(id, path string, readOnly bool) map[string]any {
	m := map[string]any{"kind": "volume", "volume": id, "path": path}
	if readOnly {
		m["readOnly"] = true
	}
	return m
}

// mounting is a change of a create that mounts these.
func mounting(mounts ...map[string]any) map[string]any { return map[string]any{"mounts": mounts} }

func (c *client) volume(name string, bytes int64) map[string]any {
	c.t.Helper()
	return c.must("volume.create", map[string]any{"id": name, "owner": "test", "sizeBytes": bytes})
}

// expectInside runs a script as root inside.
func expectInside(t *testing.T, made map[string]any, script, want string) {
	t.Helper()
	if got, code := sh(t, made, script); strings.TrimSpace(got) != want {
		t.Errorf("%s: %q (code %d), want %q", script, got, code, want)
	}
}

func TestAVolumeOutlivesItsSandboxes(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		c.volume("vol1", 0)
		c.volume("vol1", 0)
		made := c.create("first", mounting(volumeAt("vol1", "/data/cache", false)))
		initialize(t, made, `{}`)
		expectInside(t, made, "echo one > /data/cache/file; id -u; stat -c '%u %a' /data/cache /data/cache/file; grep -c ' /data/cache .*nosuid,nodev' /proc/self/mountinfo",
			"0\n0 777\n0 644\n1")
		// Another sandbox has other ids, and sees the same files at the same time.
		other := c.create("second", mounting(volumeAt("vol1", "/elsewhere", true)))
		initialize(t, other, `{}`)
		expectInside(t, other, "cat /elsewhere/file; stat -c %u /elsewhere/file; echo two > /elsewhere/file", "one\n0\n/bin/bash: line 1: /elsewhere/file: Read-only file system")
		c.fails("conflict", "volume.used", "volume.remove", id("vol1"))
		c.must("sandbox.destroy", id("second"))
		// A stopped sandbox still has it, and gets it again.
		c.must("sandbox.stop", id("first"))
		c.fails("conflict", "volume.used", "volume.remove", id("vol1"))
		d.kill()
		c.close()
		d.run()
		again := d.dial()
		defer again.close()
		started := again.must("sandbox.start", again.args("first", mounting(volumeAt("vol1", "/data/cache", false))))
		initialize(t, started, `{}`)
		expectInside(t, started, "cat /data/cache/file", "one")
		// The copy of a sandbox has the empty directory only.
		again.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "first"})
		copied := again.create("copied", map[string]any{"snapshot": "shot1"})
		initialize(t, copied, `{}`)
		expectInside(t, copied, "ls -A /data/cache; stat -c %F /data/cache", "directory")
		for _, name := range []string{"first", "copied"} {
			again.must("sandbox.destroy", id(name))
		}
		again.must("snapshot.remove", id("shot1"))
		again.fails("conflict", "volume.exists", "clear", map[string]any{})
		if used := again.must("volume.stats", id("vol1"))["usedBytes"].(float64); used <= 0 {
			t.Errorf("used %v", used)
		}
		again.must("volume.remove", id("vol1"))
		again.must("volume.remove", id("vol1"))
		again.fails("not_found", "volume.absent", "sandbox.create", again.args("third", mounting(volumeAt("vol1", "/data", false))))
		if left := again.must("volume.list", map[string]any{})["volumes"].([]any); len(left) > 0 {
			t.Errorf("left %v", left)
		}
		again.must("clear", map[string]any{})
		d.nothingLeft()
	})
}

func TestAFullVolumeFailsTheProgramOnly(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	level := c.volume("full", 16<<20)["limit"].(map[string]any)
	made := c.create("writer", mounting(volumeAt("full", "/data", false)))
	initialize(t, made, `{}`)
	if level["level"] != "enforced" {
		if level["reason"] == "" {
			t.Errorf("%v", level)
		}
		t.Skipf("not enforced here: %v", level)
	}
	out, code := sh(t, made, "head -c 64M /dev/zero > /data/big; sync; echo more >> /data/more && sync; true")
	if !strings.Contains(out, "quota") && !strings.Contains(out, "No space") {
		t.Errorf("%q (code %d)", out, code)
	}
	expectInside(t, made, "echo fine > /root/file; cat /root/file; rm /data/big; echo again > /data/small; cat /data/small", "fine\nagain")
	c.must("sandbox.destroy", id("writer"))
	c.must("volume.remove", id("full"))
}

// hostileLayer has links where a volume is mounted, and directories to compare.
func hostileLayer(t *testing.T, d *daemon, c *client) map[string]any {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, entry := range []*tar.Header{
		{Name: "plain/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 1000, Gid: 1000},
		{Name: "data", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		{Name: "up", Typeflag: tar.TypeSymlink, Linkname: "../../../../../../.."},
		{Name: "file", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "setuid", Typeflag: tar.TypeReg, Mode: 0o4755},
	} {
		must(t, w.WriteHeader(entry))
	}
	must(t, w.Close())
	sum := sha256.Sum256(data.Bytes())
	digest := hex.EncodeToString(sum[:])
	write(t, filepath.Join(d.home, "tmp/hostile.tar"), data.String())
	c.must("layer.import", map[string]any{"digest": digest, "file": "hostile.tar"})
	return map[string]any{"kind": "layers", "layers": []string{digest}}
}

// FS-33: with the same volume at a path without a link as the control.
func TestATemporaryFileSystemTakesTheOwnerAndIsNeverKept(t *testing.T) {
	temporary := func(path string) map[string]any {
		return map[string]any{"kind": "tmpfs", "path": path, "sizeBytes": 1 << 20, "takesOwner": true}
	}
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		plain := c.create("plain", mounting(map[string]any{"kind": "tmpfs", "path": "/plain"}))
		initialize(t, plain, `{}`)
		expectInside(t, plain, "stat -c '%u %g %a' /plain; mkdir -m 750 /owned; echo old > /owned/file", "0 0 1777")
		c.must("sandbox.stop", id("plain"))
		mounts := mounting(temporary("/owned"), temporary("/home/user/made"))
		started := c.must("sandbox.start", c.args("plain", mounts))
		initialize(t, started, `{}`)
		look := "stat -c '%u %g %a' /owned /home/user/made; ls -A /owned /home/user/made"
		fresh := "0 0 750\n1000 1000 1777\n/home/user/made:\n\n/owned:"
		expectInside(t, started, look, fresh)
		expectInside(t, started, "echo new > /owned/file; echo new > /home/user/made/file; grep -c ' /owned .*nosuid,nodev' /proc/self/mountinfo", "1")
		expectInside(t, started, "head -c 2097152 /dev/zero > /home/user/made/big", "head: error writing 'standard output': No space left on device")
		c.must("sandbox.stop", id("plain"))
		again := c.must("sandbox.start", c.args("plain", mounts))
		initialize(t, again, `{}`)
		expectInside(t, again, look, fresh)
		expectInside(t, again, "echo new > /home/user/made/file", "")
		c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "plain"})
		// Without the mount, what it covered is there: the old file, and nothing of the new ones.
		copied := c.create("copied", map[string]any{"snapshot": "shot1"})
		initialize(t, copied, `{}`)
		expectInside(t, copied, "cat /owned/file; ls -A /home/user/made; stat -c '%a' /home/user/made", "old\n1777")
		for _, name := range []string{"plain", "copied"} {
			c.must("sandbox.destroy", id(name))
		}
		c.must("snapshot.remove", id("shot1"))
	})
}

func TestNothingIsMountedThroughALink(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	root := hostileLayer(t, d, c)
	c.volume("vol1", 0)
	for _, path := range []string{"/data", "/data/below", "/up", "/up/tmp/x", "/file", "/file/below"} {
		change := mounting(volumeAt("vol1", path, false))
		change["root"] = root
		c.fails("invalid_argument", "mount.path", "sandbox.create", c.args("linked", change))
	}
	for _, path := range []string{"/proc", "/proc/1", "/sys/fs", "/dev/shm", "/run/agentpod", "/tmp/x", "/etc", "/.agentpod"} {
		c.fails("invalid_argument", "mount.reserved", "sandbox.create", c.args("linked", mounting(volumeAt("vol1", path, false))))
	}
	for _, path := range []string{"/", "relative", "/a/../b", "/a/./b", "/a//b", "/a/", ""} {
		c.fails("invalid_argument", "request.invalid", "sandbox.create", c.args("linked", mounting(volumeAt("vol1", path, false))))
	}
	c.fails("invalid_argument", "mount.nested", "sandbox.create", c.args("linked", mounting(volumeAt("vol1", "/a", false), volumeAt("vol1", "/a/b", false))))
	c.fails("invalid_argument", "mount.nested", "sandbox.create", c.args("linked", mounting(volumeAt("vol1", "/a", false), volumeAt("vol1", "/a", false))))
	c.must("volume.create", map[string]any{"id": "other", "owner": "somebody"})
	c.fails("not_found", "volume.absent", "sandbox.create", c.args("linked", mounting(volumeAt("other", "/a", false))))
	c.must("volume.remove", id("other"))
	// The same volume is mounted where the path has no link, with the owner and mode of what it covers.
	change := mounting(volumeAt("vol1", "/plain", false))
	change["root"] = root
	made := c.create("plain", change)
	info, err := os.Stat(inside(made, "/plain"))
	must(t, err)
	if info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v", info.Mode())
	}
	c.must("sandbox.destroy", id("plain"))
	c.must("volume.remove", id("vol1"))
}

func TestAnotherRootIsMountedReadOnly(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		base := baseLayer(t, d, c)
		c.step("shot1", over(base), func(made map[string]any) {
			must(t, os.WriteFile(inside(made, "/base/added"), []byte("added"), 0o644), os.Remove(inside(made, "/base/gone")))
			give(t, made, "/base")
		})
		from := over(base, "shot1")["root"]
		made := c.create("build", mounting(map[string]any{"kind": "root", "path": "/from/stage", "root": from}))
		initialize(t, made, `{}`)
		expectInside(t, made, "cat /from/stage/base/added; ls /from/stage/base/gone; touch /from/stage/x; stat -c %u /from/stage/base/added; grep -c ' /from/stage ro,nosuid,nodev' /proc/self/mountinfo",
			"addedls: cannot access '/from/stage/base/gone': No such file or directory\ntouch: cannot touch '/from/stage/x': Read-only file system\n0\n1")
		c.fails("conflict", "snapshot.used", "snapshot.remove", id("shot1"))
		c.fails("conflict", "layer.used", "layer.remove", map[string]any{"digest": base["layers"].([]string)[0]})
		c.must("sandbox.destroy", id("build"))
		c.must("snapshot.remove", id("shot1"))
		c.fails("unsupported", "mount.root", "sandbox.create", c.args("build", mounting(map[string]any{"kind": "root", "path": "/x", "root": hostRoot})))
	})
}

func TestAnIncompleteVolumeIsRemovedAtTheNextStart(t *testing.T) {
	d := start(t)
	c := d.dial()
	c.volume("half", 0)
	c.volume("whole", 0)
	c.close()
	d.kill()
	must(t, os.Remove(filepath.Join(d.home, "volumes/half/volume.json")))
	d.run()
	again := d.dial()
	defer again.close()
	if left := again.listed("volume.list", "volumes"); !strings.Contains(left, "whole") || strings.Contains(left, "half") {
		t.Errorf("left %s", left)
	}
	if _, err := os.Stat(filepath.Join(d.home, "volumes/half")); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	again.must("volume.remove", id("whole"))
}
