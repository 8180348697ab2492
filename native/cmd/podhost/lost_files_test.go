package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// imageAt writes bytes into the pool's image when it is no longer mounted, and returns the old bytes.
func (d *daemon) imageAt(at int64, data []byte) []byte {
	d.t.Helper()
	waitFor(d.t, "the pool to be let go", func() bool {
		output, _ := exec.Command("losetup", "-a").Output()
		return !strings.Contains(string(output), d.home)
	})
	image, err := os.OpenFile(filepath.Join(d.home, "pool.img"), os.O_RDWR, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer image.Close()
	was := make([]byte, len(data))
	if _, err := image.ReadAt(was, at); err != nil {
		d.t.Fatal(err)
	}
	if _, err := image.WriteAt(data, at); err != nil {
		d.t.Fatal(err)
	}
	return was
}

// withStopped makes a stopped sandbox with a file, and a snapshot of it, on a loop pool.
func withStopped(t *testing.T) *daemon {
	t.Helper()
	d := start(t)
	c := d.dial()
	defer c.close()
	if kind := c.must("hello", map[string]any{})["pool"].(map[string]any)["kind"]; kind != "loop" {
		t.Skipf("needs a loop pool, not %v", kind)
	}
	put(t, inside(c.create("kept1", nil), "/root/kept"), "kept")
	c.must("sandbox.stop", id("kept1"))
	c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "kept1"})
	d.stop()
	return d
}

func (c *client) fails(code, reason, op string, args any) {
	c.t.Helper()
	if failure, got := c.call(op, args); got != code || failure["reason"] != reason {
		c.t.Errorf("%s: %v, want %s (%s)", op, failure, code, reason)
	}
}

func (c *client) listed(op, key string) string {
	c.t.Helper()
	var found []string
	for _, one := range c.must(op, map[string]any{})[key].([]any) {
		fields := one.(map[string]any)
		found = append(found, fmt.Sprint(fields["id"], " ", fields["state"]))
	}
	return strings.Join(found, ", ")
}

func TestAPoolThatCannotBeMountedLosesNothing(t *testing.T) {
	d := withStopped(t)
	// A feature that this kernel does not know, as after booting an older one.
	was := d.imageAt(0x100bc+7, []byte{0x80})
	d.run()
	c := d.dial()
	defer c.close()
	c.expect("stopped", "kept1")
	if found := c.listed("sandbox.list", "sandboxes"); found != "kept1 stopped" {
		t.Errorf("listed: %s", found)
	}
	if found := c.listed("snapshot.list", "snapshots"); found != "shot1 <nil>" {
		t.Errorf("listed: %s", found)
	}
	if info := c.must("hello", map[string]any{})["pool"].(map[string]any); info["kind"] != "loop" || info["available"] != false {
		t.Errorf("%v", info)
	}
	c.fails("unavailable", "pool.unavailable", "sandbox.start", c.args("kept1", nil))
	c.fails("unavailable", "pool.unavailable", "sandbox.create", c.args("other", nil))
	c.fails("unavailable", "pool.unavailable", "sandbox.create", c.args("other", map[string]any{"snapshot": "shot1"}))
	c.fails("unavailable", "pool.unavailable", "sandbox.create", c.args("other", over(hostRoot, "shot1")))
	c.fails("unavailable", "pool.unavailable", "snapshot.export", map[string]any{"id": "shot1", "file": "x"})
	c.fails("unavailable", "pool.unavailable", "snapshot.create", map[string]any{"id": "shot2", "owner": "test", "sandbox": "kept1"})
	c.fails("unavailable", "pool.unavailable", "snapshot.remove", id("shot1"))
	if found := c.listed("snapshot.list", "snapshots"); found != "shot1 <nil>" {
		t.Errorf("listed: %s", found)
	}
	c.must("sandbox.stop", id("kept1"))
	c.expect("stopped", "kept1")
	d.imageAt(0x100bc+7, was)
	time.Sleep(1100 * time.Millisecond)
	if text(t, inside(c.must("sandbox.start", c.args("kept1", nil)), "/root/kept")) != "kept" {
		t.Error("the file is lost")
	}
	c.must("snapshot.remove", id("shot1"))
}

func TestLostFilesAreReportedAndTheirRecordsStay(t *testing.T) {
	d := withStopped(t)
	d.imageAt(0x10040, make([]byte, 8))
	d.run()
	c := d.dial()
	defer c.close()
	if _, err := os.Lstat(filepath.Join(d.home, "pool.img.damaged")); err != nil {
		t.Error(err)
	}
	c.expect("absent", "kept1")
	if found := c.listed("sandbox.list", "sandboxes"); found != "kept1 absent" {
		t.Errorf("listed: %s", found)
	}
	if found := c.listed("snapshot.list", "snapshots"); found != "shot1 <nil>" {
		t.Errorf("listed: %s", found)
	}
	c.fails("data_loss", "sandbox.files", "sandbox.start", c.args("kept1", nil))
	c.fails("data_loss", "snapshot.files", "sandbox.create", c.args("other", map[string]any{"snapshot": "shot1"}))
	c.fails("data_loss", "snapshot.files", "sandbox.create", c.args("other", over(hostRoot, "shot1")))
	c.must("sandbox.destroy", id("kept1"))
	c.must("snapshot.remove", id("shot1"))
	c.create("fresh", nil)
	c.must("sandbox.destroy", id("fresh"))
	d.nothingLeft()
}

func TestADamagedHandleIsReconstructed(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	for _, name := range []string{"torn1", "torn2", "torn3"} {
		put(t, inside(c.create(name, nil), "/root/kept"), "kept")
		handle := filepath.Join(d.home, "sandboxes", name, "handle.json")
		if name == "torn1" {
			c.must("sandbox.stop", id(name))
		}
		put(t, handle, "")
		c.fails("data_loss", "sandbox.handle", "sandbox.inspect", id(name))
	}
	// torn1 was stopped; torn2 runs and is stopped first; torn3 runs.
	c.must("sandbox.stop", id("torn2"))
	c.expect("stopped", "torn2")
	for _, name := range []string{"torn1", "torn2", "torn3"} {
		if text(t, inside(c.must("sandbox.start", c.args(name, nil)), "/root/kept")) != "kept" {
			t.Errorf("%s has lost its file", name)
		}
		c.expect("running", name)
	}
	write(t, filepath.Join(d.home, "sandboxes/bare1/handle.json"), "{")
	c.fails("data_loss", "sandbox.handle", "sandbox.start", c.args("bare1", nil))
	c.fails("data_loss", "sandbox.handle", "sandbox.stop", id("bare1"))
	d.destroyAll()
	d.nothingLeft()
}

func TestAShellIsLikeAStartWithoutOneAndLeavesTheMainThreadAlone(t *testing.T) {
	d := start(t)
	d.stop()
	d.flags = []string{"--shells", "2"}
	d.run()
	c := d.dial()
	defer c.close()
	main := fmt.Sprintf("/proc/%d", d.cmd.Process.Pid)
	space, err := os.Readlink(main + "/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	// The size of /tmp in a shell that was ready, and in one that was started for its sandbox.
	sizes := map[bool]uint64{}
	for i := 0; i < 12; i++ {
		name, ready := fmt.Sprintf("shell%d", i), map[int]bool{}
		if i > 0 {
			ready = d.awaitShells(2)
		}
		made := c.create(name, map[string]any{"resources": map[string]any{"files": 256}})
		var fs unix.Statfs_t
		if err := unix.Statfs(inside(made, "/tmp"), &fs); err != nil {
			t.Fatal(err)
		}
		sizes[ready[int(made["pid"].(float64))]] = fs.Blocks
		c.must("sandbox.destroy", id(name))
	}
	// Half of the memory is rounded differently in the output.
	if len(sizes) != 2 || sizes[true]+1 < sizes[false] || sizes[false]+1 < sizes[true] {
		t.Errorf("blocks of /tmp, cold and in a shell: %v", sizes)
	}
	if now, err := os.Readlink(main + "/ns/mnt"); err != nil || now != space {
		t.Errorf("the main thread was in %s and is in %s: %v", space, now, err)
	}
	status := text(t, main+"/status")
	if !strings.Contains(status, "\nUid:\t0\t0\t0\t0\n") {
		t.Errorf("the main thread is another user: %s", status)
	}
}

func TestAShellThatWasKilledIsCollected(t *testing.T) {
	d := startWith(t, daemon{flags: []string{"--shells", "2"}})
	c := d.dial()
	defer c.close()
	c.create("first", nil)
	killed := d.awaitShells(2)
	for pid := range killed {
		unix.Kill(pid, unix.SIGKILL)
	}
	for pid := range killed {
		waitFor(t, "the end of a shell", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
	// Each create takes a shell, or makes podhost look at them.
	for i := 0; i < 3; i++ {
		c.create(fmt.Sprintf("after%d", i), nil)
	}
	for pid := range killed {
		waitFor(t, "the collection of a shell", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	}
}

func TestAPlainDirectoryInAPoolIsASandboxWithoutADiskLimit(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	if info := c.must("hello", map[string]any{})["pool"].(map[string]any); info["kind"] != "loop" || info["quotas"] != true {
		t.Skipf("needs a loop pool with quotas, not %v", info)
	}
	put(t, inside(c.create("kept1", nil), "/root/kept"), "kept")
	c.must("sandbox.stop", id("kept1"))
	// The state of a backup by cp.
	area := fmt.Sprintf("/proc/%d/root/mnt/pool/sandboxes/", d.cmd.Process.Pid)
	if output, err := exec.Command("cp", "-a", area+"kept1", area+"copy1").CombinedOutput(); err != nil {
		t.Skipf("cannot copy in the pool: %s", output)
	}
	for _, names := range [][2]string{{"kept1", "former"}, {"copy1", "kept1"}} {
		if err := os.Rename(area+names[0], area+names[1]); err != nil {
			t.Fatal(err)
		}
	}
	made := c.must("sandbox.start", c.args("kept1", map[string]any{"resources": map[string]any{"diskBytes": 32 << 20}}))
	if level := made["limits"].(map[string]any)["disk"].(map[string]any); level["level"] != "none" || !strings.Contains(fmt.Sprint(level["reason"]), "plain directory") {
		t.Errorf("the limit is %v", level)
	}
	if text(t, inside(made, "/root/kept")) != "kept" {
		t.Error("the file is lost")
	}
	c.must("sandbox.stop", id("kept1"))
	c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "kept1"})
	c.must("sandbox.destroy", id("kept1"))
	if text(t, inside(c.create("fork1", map[string]any{"snapshot": "shot1"}), "/root/kept")) != "kept" {
		t.Error("the fork has no file")
	}
	c.must("sandbox.destroy", id("fork1"))
	c.must("snapshot.remove", id("shot1"))
	d.nothingLeft()
}
