package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// volumes lists the entries of the pool that hold files of sandboxes, and of shells with a ready root.
func (d *daemon) volumes() (sandboxes, shells []string) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/mnt/pool/sandboxes", d.cmd.Process.Pid))
	if err != nil {
		d.t.Skipf("needs a loop pool: %v", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "sh") && len(entry.Name()) == 16 {
			shells = append(shells, entry.Name())
		} else {
			sandboxes = append(sandboxes, entry.Name())
		}
	}
	return sandboxes, shells
}

// volumeNumber identifies a subvolume, whatever its name is.
func (d *daemon) volumeNumber(name string) uint64 {
	d.t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root/mnt/pool/sandboxes/%s", d.cmd.Process.Pid, name), &stat); err != nil {
		d.t.Fatal(err)
	}
	return stat.Dev
}

// awaitReadyRoot waits for a shell that has a root already.
func (d *daemon) awaitReadyRoot() {
	d.t.Helper()
	d.awaitShells(2)
	waitFor(d.t, "a ready root", func() bool {
		_, shells := d.volumes()
		return len(shells) > 0
	})
	// podd prepares the root.
	d.awaitShells(2)
}

// mountTable is the mount points of a process with their file systems and options, in order.
func mountTable(t *testing.T, pid any) string {
	t.Helper()
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text(t, fmt.Sprintf("/proc/%v/mountinfo", pid))), "\n") {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		lines = append(lines, strings.Join([]string{fields[4], fields[5], strings.Fields(after)[0]}, " "))
	}
	return strings.Join(lines, "\n")
}

func hostnameOf(t *testing.T, pid any) string {
	t.Helper()
	output, err := exec.Command("nsenter", "-u", "-t", fmt.Sprint(pid), "hostname").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return strings.TrimSpace(string(output))
}

func TestASandboxInAReadyRootIsLikeOneThatWasStartedForIt(t *testing.T) {
	d := startWith(t, daemon{flags: []string{"--shells", "2"}})
	c := d.dial()
	defer c.close()
	named := func(name string) map[string]any {
		return map[string]any{"hostname": name, "resources": map[string]any{"diskBytes": 64 << 20, "files": 1000, "memoryBytes": 256 << 20}}
	}
	cold := c.create("cold1", named("cold1"))
	d.awaitReadyRoot()
	_, shells := d.volumes()
	made := map[uint64]bool{}
	for _, shell := range shells {
		made[d.volumeNumber(shell)] = true
	}
	ready := c.create("ready1", named("ready1"))
	if !made[d.volumeNumber("ready1")] {
		t.Fatal("no ready root was used")
	}
	if a, b := mountTable(t, cold["pid"]), mountTable(t, ready["pid"]); a != b {
		t.Errorf("the mounts differ:\n%s\n\n%s", a, b)
	}
	for _, name := range []string{"limits", "network", "env"} {
		if a, b := fmt.Sprint(cold[name]), fmt.Sprint(ready[name]); a != b {
			t.Errorf("%s: %s and %s", name, a, b)
		}
	}
	for made, name := range map[string]string{fmt.Sprint(cold["pid"]): "cold1", fmt.Sprint(ready["pid"]): "ready1"} {
		root := "/proc/" + made + "/root"
		if got := text(t, root+"/etc/hostname"); got != name+"\n" || hostnameOf(t, made) != name {
			t.Errorf("%s is called %q and %q", name, got, hostnameOf(t, made))
		}
		if got := text(t, root+"/etc/hosts"); !strings.HasSuffix(got, "127.0.1.1 "+name+"\n") {
			t.Errorf("%s: hosts: %q", name, got)
		}
		if limit := text(t, "/proc/"+made+"/limits"); !strings.Contains(limit, "Max open files            1000 ") {
			t.Errorf("%s: %s", name, limit)
		}
	}
	if text(t, inside(cold, "/etc/machine-id")) == text(t, inside(ready, "/etc/machine-id")) {
		t.Error("both have one machine id")
	}
	put(t, inside(ready, "/root/kept"), "kept")
	c.must("sandbox.stop", id("ready1"))
	again := c.must("sandbox.start", c.args("ready1", named("ready1")))
	if text(t, inside(again, "/root/kept")) != "kept" {
		t.Error("the file is lost")
	}
}

func TestFilesOfReadyRootsThatNoSandboxTookAreRemoved(t *testing.T) {
	d := startWith(t, daemon{flags: []string{"--shells", "2"}})
	c := d.dial()
	c.create("stays", nil)
	d.awaitReadyRoot()
	c.close()
	d.kill()
	d.run()
	c = d.dial()
	defer c.close()
	if sandboxes, shells := d.volumes(); len(shells) > 0 || len(sandboxes) != 1 {
		t.Errorf("after a kill: %v and %v", sandboxes, shells)
	}
	c.create("second", nil)
	d.awaitReadyRoot()
	for _, name := range []string{"stays", "second"} {
		c.must("sandbox.destroy", id(name))
	}
	c.must("clear", map[string]any{})
	if _, err := os.Lstat(filepath.Join(d.home, "pool.img")); !os.IsNotExist(err) {
		t.Errorf("the pool is still there: %v", err)
	}
}
