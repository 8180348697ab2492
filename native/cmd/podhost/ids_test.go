package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// idsOutside are the first and the last id outside of a process's user namespace.
func idsOutside(t *testing.T, pid int) (first, last int) {
	t.Helper()
	for _, file := range []string{"/uid_map", "/gid_map"} {
		fields := strings.Fields(text(t, "/proc/"+strconv.Itoa(pid)+file))
		if len(fields) != 3 || fields[0] != "0" || fields[2] != "65536" {
			t.Fatalf("%s: %v", file, fields)
		}
		first, _ = strconv.Atoi(fields[1])
	}
	return first, first + 65535
}

// claims are the ranges that a state directory has claimed.
func (d *daemon) claims() map[int]bool {
	links, _ := filepath.Glob("/run/agentpod/ids/*")
	claimed := map[int]bool{}
	for _, link := range links {
		if home, err := os.Readlink(link); err == nil && home == d.home {
			base, _ := strconv.Atoi(filepath.Base(link))
			claimed[base] = true
		}
	}
	return claimed
}

func ownIDs(t *testing.T, c *client) {
	t.Helper()
	if ids := c.must("hello", map[string]any{})["ids"].(map[string]any); ids["own"] != true {
		t.Skipf("sandboxes share ids here: %v", ids["reason"])
	}
}

// poddPids are the first processes of the sandboxes and of the shells that are ready. A podd that still
// prepares itself has no filter.
func (d *daemon) poddPids() []int {
	var pids []int
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
	for _, file := range children {
		data, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(data)) {
			status, _ := os.ReadFile("/proc/" + field + "/status")
			if pid, err := strconv.Atoi(field); err == nil && strings.Contains(string(status), "Name:\tpodd\n") && strings.Contains(string(status), "Seccomp:\t2\n") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// awaitShells waits until so many shells are ready and returns their pids.
func (d *daemon) awaitShells(count int) map[int]bool {
	d.t.Helper()
	c := d.dial()
	defer c.close()
	shells := map[int]bool{}
	waitFor(d.t, "shells", func() bool {
		shells = map[int]bool{}
		for _, pid := range d.poddPids() {
			shells[pid] = true
		}
		for _, one := range c.must("sandbox.list", map[string]any{})["sandboxes"].([]any) {
			if pid, runs := one.(map[string]any)["pid"].(float64); runs {
				delete(shells, int(pid))
			}
		}
		return len(shells) >= count
	})
	// podhost has yet to read that the last one is ready.
	time.Sleep(100 * time.Millisecond)
	return shells
}

func TestSandboxesAndShellsOfTwoStateDirectoriesHaveDisjointIDs(t *testing.T) {
	seen := map[int]string{}
	for i := 0; i < 2; i++ {
		d := startWith(t, daemon{flags: []string{"--shells", "2"}})
		c := d.dial()
		defer c.close()
		ownIDs(t, c)
		pids := []int{int(c.create("cold1", nil)["pid"].(float64))}
		d.awaitShells(2)
		made := c.create("warm1", nil)
		if firstID(made) != int(c.must("sandbox.inspect", id("warm1"))["ids"].(map[string]any)["base"].(float64)) {
			t.Error("inspect says other ids than create")
		}
		pids = append(append(pids, int(made["pid"].(float64))), d.poddPids()...)
		for _, pid := range pids {
			first, last := idsOutside(t, pid)
			who := d.home + " " + strconv.Itoa(pid)
			if other := seen[first]; other != "" && !strings.HasSuffix(other, " "+strconv.Itoa(pid)) {
				t.Errorf("%s and %s are both %d to %d", who, other, first, last)
			}
			if seen[first] = who; first%65536 != 0 || !d.claims()[first] {
				t.Errorf("%d of %s is not claimed", first, who)
			}
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d ranges were seen", len(seen))
	}
}

func TestARangeOfIDsSurvivesAKilledPodhostAndIsFreedWithItsSandbox(t *testing.T) {
	d := start(t)
	c := d.dial()
	ownIDs(t, c)
	stays, goes := firstID(c.create("stays", nil)), firstID(c.create("goes1", nil))
	d.kill()
	c.close()
	d.run()
	c = d.dial()
	defer c.close()
	if claimed := d.claims(); !claimed[stays] || !claimed[goes] {
		t.Fatalf("after a kill, %d and %d are not all claimed: %v", stays, goes, claimed)
	}
	for i := 0; i < 12; i++ {
		name := "more" + strconv.Itoa(i)
		if base := firstID(c.create(name, nil)); base == stays || base == goes {
			t.Fatalf("%d was given twice", base)
		}
		c.must("sandbox.destroy", id(name))
	}
	c.must("sandbox.destroy", id("goes1"))
	c.must("sandbox.stop", id("stays"))
	if claimed := d.claims(); claimed[stays] || claimed[goes] {
		t.Error("a range outlives its sandbox")
	}
	c.must("sandbox.start", c.args("stays", nil))
	d.destroyAll()
	d.stop()
	if left := d.claims(); len(left) > 0 {
		t.Errorf("claims %v are left", left)
	}
	d.run()
}

func TestFilesKeepTheirOwnersWhenASandboxGetsOtherIDs(t *testing.T) {
	onEachPool(t, func(t *testing.T, d *daemon, c *client) {
		ownIDs(t, c)
		made := c.create("first", nil)
		base := firstID(made)
		at := func(path string) string { return inside(made, path) }
		own := func(path string, uid, gid int) error { return os.Chown(at(path), base+uid, base+gid) }
		must(t, os.MkdirAll(at("/srv/kept/sub"), 0o755), own("/srv/kept", 0, 0), own("/srv/kept/sub", 1000, 0), unix.Chmod(at("/srv/kept/sub"), 0o1770))
		for name, user := range map[string][2]int{"root": {0, 0}, "user": {1000, 1000}, "other": {65533, 7}} {
			put(t, at("/srv/kept/"+name), name)
			must(t, own("/srv/kept/"+name, user[0], user[1]))
		}
		must(t, unix.Chmod(at("/srv/kept/other"), 0o4644), own(aProgram, 1000, 0), own("/etc/profile", 1000, 0))
		look := func(made map[string]any) string {
			initialize(t, made, `{}`)
			output, _ := sh(t, made, "stat -c '%n %u %g %a' /srv/kept /srv/kept/* "+aProgram+" /usr/bin /etc /etc/profile /etc/hosts /home/user /root")
			return output
		}
		before := look(made)
		if !strings.Contains(before, "other 65533 7 4644") || !strings.Contains(before, "/srv/kept/sub 1000 0 1770") {
			t.Fatal(before)
		}
		c.must("sandbox.stop", id("first"))
		c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "first"})
		// The ids that are free again go to another sandbox.
		if other := firstID(c.create("other", nil)); other != base {
			t.Fatalf("%d is free, and %d was taken", base, other)
		}
		for name, again := range map[string]func() map[string]any{
			"started again": func() map[string]any { return c.must("sandbox.start", c.args("first", nil)) },
			"forked":        func() map[string]any { return c.create("fork1", map[string]any{"snapshot": "shot1"}) },
			"over it":       func() map[string]any { return c.create("over1", over(hostRoot, "shot1")) },
		} {
			made := again()
			if firstID(made) == base {
				t.Errorf("%s: the same ids, which shows nothing", name)
			}
			if after := look(made); after != before {
				t.Errorf("%s:\n%s\nand was\n%s", name, after, before)
			}
			var stat syscall.Stat_t
			if err := syscall.Stat(inside(made, "/srv/kept/user"), &stat); err != nil || int(stat.Uid) != firstID(made)+1000 {
				t.Errorf("%s: the user's file is %d's outside: %v", name, stat.Uid, err)
			}
		}
	})
}
