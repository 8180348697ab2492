package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inside is a path in a running sandbox, as the host sees it.
func inside(made map[string]any, path string) string {
	return fmt.Sprintf("/proc/%d/root%s", int(made["pid"].(float64)), path)
}

func (c *client) args(id string, change map[string]any) map[string]any {
	args := map[string]any{"id": id, "owner": "test", "hostname": "box", "root": map[string]any{"kind": "host"},
		"resources": map[string]any{"memoryBytes": 256 << 20, "pids": 64, "cpus": 1, "files": 512}, "deadlineMs": 0}
	for key, value := range change {
		args[key] = value
	}
	return args
}

func (c *client) state(id string) any {
	c.t.Helper()
	return c.must("sandbox.inspect", map[string]any{"id": id})["state"]
}

func (c *client) expect(state, id string) {
	c.t.Helper()
	if found := c.state(id); found != state {
		c.t.Errorf("%s is %v, not %s", id, found, state)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAPausedSandboxIsFrozenAndCanBeDestroyed(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	past := time.Now().Add(-time.Minute).UnixMilli()
	made := c.create("calm1", nil)
	health(t, made["socket"].(string))
	c.must("sandbox.pause", id("calm1"))
	c.must("sandbox.pause", id("calm1"))
	c.must("sandbox.deadline", map[string]any{"id": "calm1", "deadlineMs": past})
	c.expect("paused", "calm1")
	time.Sleep(1200 * time.Millisecond)
	c.expect("paused", "calm1")
	if _, code := c.call("sandbox.start", c.args("calm1", nil)); code != "conflict" {
		t.Errorf("start of a paused one: %s", code)
	}
	// The next podhost finds it paused.
	c.close()
	d.kill()
	d.run()
	c = d.dial()
	c.expect("paused", "calm1")
	for i := 0; i < 2; i++ {
		c.must("sandbox.resume", map[string]any{"id": "calm1", "deadlineMs": 0})
	}
	c.expect("running", "calm1")
	if status := health(t, made["socket"].(string)); status != "HTTP/1.1 204 No Content" {
		t.Errorf("podd answered %q", status)
	}
	c.must("sandbox.pause", id("calm1"))
	c.must("sandbox.destroy", id("calm1"))
	c.expect("absent", "calm1")
	d.nothingLeft()
}

// STATE-3
func TestAStoppedSandboxStartsAgainOnItsFiles(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("rest1", nil)
	put(t, inside(made, "/root/kept"), "kept")
	put(t, inside(made, "/usr/local/kept"), "kept too")
	machine := text(t, inside(made, "/etc/machine-id"))
	boot := text(t, inside(made, "/proc/sys/kernel/random/boot_id"))
	if err := os.Remove(inside(made, "/etc/profile")); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 2; i++ {
		c.must("sandbox.stop", id("rest1"))
	}
	c.expect("stopped", "rest1")
	if groups := d.groups(); len(groups) > 0 {
		t.Errorf("groups %v", groups)
	}
	if _, code := c.call("sandbox.pause", id("rest1")); code != "conflict" {
		t.Errorf("pause of a stopped one: %s", code)
	}
	c.close()
	d.kill()
	d.run()
	c = d.dial()
	c.expect("stopped", "rest1")
	if _, code := c.call("sandbox.start", c.args("rest1", map[string]any{"owner": "other"})); code != "invalid_argument" {
		t.Errorf("start by somebody else: %s", code)
	}
	made = c.must("sandbox.start", c.args("rest1", nil))
	again := c.must("sandbox.start", c.args("rest1", nil))
	if again["pid"] != made["pid"] {
		t.Errorf("started twice: %v and %v", made["pid"], again["pid"])
	}
	health(t, made["socket"].(string))
	if text(t, inside(made, "/root/kept")) != "kept" || text(t, inside(made, "/usr/local/kept")) != "kept too" {
		t.Error("files are lost")
	}
	if _, err := os.Lstat(inside(made, "/etc/profile")); !os.IsNotExist(err) {
		t.Errorf("a removed file came back: %v", err)
	}
	if text(t, inside(made, "/etc/machine-id")) != machine || text(t, inside(made, "/proc/sys/kernel/random/boot_id")) == boot {
		t.Error("a start changes the boot id and nothing else")
	}
	// A sandbox that has ended can be stopped and started, too.
	unix.Kill(int(made["pid"].(float64)), unix.SIGKILL)
	waitFor(t, "the end", func() bool { return c.state("rest1") == "exited" })
	c.must("sandbox.stop", id("rest1"))
	c.must("sandbox.start", c.args("rest1", nil))
	c.must("sandbox.destroy", id("rest1"))
	d.nothingLeft()
}

func waitFor(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

func TestASnapshotIsConsistentAndItsForksAreIndependent(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("tree1", nil)
	put(t, inside(made, "/root/file"), "before")
	put(t, inside(made, "/opt/file"), "before")
	shot := map[string]any{"id": "shot1", "owner": "test", "sandbox": "tree1"}
	first := c.must("snapshot.create", shot)
	put(t, inside(made, "/root/file"), "after")
	if second := c.must("snapshot.create", shot); second["sizeBytes"] != first["sizeBytes"] {
		t.Errorf("%v, then %v", first, second)
	}
	if _, code := c.call("snapshot.create", map[string]any{"id": "shot1", "owner": "other", "sandbox": "tree1"}); code != "already_exists" {
		t.Errorf("somebody else's: %s", code)
	}
	c.expect("running", "tree1")
	health(t, made["socket"].(string))
	fork := c.create("fork1", map[string]any{"snapshot": "shot1", "hostname": "other"})
	if text(t, inside(fork, "/root/file")) != "before" || text(t, inside(fork, "/opt/file")) != "before" {
		t.Error("not as it was")
	}
	if text(t, inside(fork, "/etc/machine-id")) == text(t, inside(made, "/etc/machine-id")) || text(t, inside(fork, "/etc/hostname")) != "other\n" {
		t.Error("the fork has no identity of its own")
	}
	put(t, inside(fork, "/root/file"), "forked")
	if text(t, inside(made, "/root/file")) != "after" {
		t.Error("a fork wrote to its original")
	}
	if _, code := c.call("sandbox.create", c.args("fork2", map[string]any{"snapshot": "absent"})); code != "not_found" {
		t.Errorf("from an absent one: %s", code)
	}
	if _, code := c.call("clear", map[string]any{}); code != "conflict" {
		t.Errorf("clear: %s", code)
	}
	c.must("sandbox.destroy", id("tree1"))
	if list := c.must("snapshot.list", map[string]any{})["snapshots"].([]any); len(list) != 1 {
		t.Errorf("%v", list)
	}
	c.close()
	d.kill()
	// An incomplete snapshot, as a podhost that is killed leaves it.
	if err := os.MkdirAll(filepath.Join(d.home, "snapshots/half1/upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.run()
	c = d.dial()
	if list := c.must("snapshot.list", map[string]any{})["snapshots"].([]any); len(list) != 1 {
		t.Errorf("%v", list)
	}
	if _, err := os.Stat(filepath.Join(d.home, "snapshots/half1")); !os.IsNotExist(err) {
		t.Errorf("half a snapshot is still there: %v", err)
	}
	again := c.create("fork3", map[string]any{"snapshot": "shot1"})
	for i := 0; i < 2; i++ {
		c.must("snapshot.remove", id("shot1"))
	}
	if text(t, inside(again, "/root/file")) != "before" || text(t, inside(fork, "/root/file")) != "forked" {
		t.Error("a fork lost its files with the snapshot")
	}
	c.must("sandbox.destroy", id("fork1"))
	c.must("sandbox.destroy", id("fork3"))
	c.must("clear", map[string]any{})
	d.nothingLeft()
}

func TestLinksThatASandboxLeavesAreNeverFollowed(t *testing.T) {
	for name, leave := range map[string]func(root string) error{
		"etc":       func(root string) error { return swapForLink(root, "etc") },
		".agentpod": func(root string) error { return swapForLink(root, ".agentpod") },
		"tmp as a file": func(root string) error {
			return os.WriteFile(filepath.Join(root, "run-file"), nil, 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			c := d.dial()
			defer c.close()
			made := c.create("evil1", nil)
			health(t, made["socket"].(string))
			if err := leave(inside(made, "")); err != nil {
				t.Skipf("cannot be left: %v", err)
			}
			c.must("sandbox.stop", id("evil1"))
			result, code := c.call("sandbox.start", c.args("evil1", nil))
			if name == "tmp as a file" {
				if code != "" {
					t.Errorf("a harmless one was refused: %v", result)
				}
				return
			}
			if code != "data_loss" || result["reason"] != "sandbox.unsafe" {
				t.Errorf("%v", result)
			}
			c.expect("stopped", "evil1")
			if mounts := text(t, "/proc/self/mountinfo"); strings.Contains(mounts, d.home) {
				t.Errorf("a mount got out: %s", mounts)
			}
		})
	}
}

// swapForLink does what root inside can: move a directory away and leave a link.
func swapForLink(root, name string) error {
	if err := os.Rename(filepath.Join(root, name), filepath.Join(root, "moved")); err != nil {
		return err
	}
	return os.Symlink("/var/tmp", filepath.Join(root, name))
}

func TestADeadlinePausesOrStopsASandbox(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	soon := time.Now().Add(-1500 * time.Millisecond).UnixMilli()
	c.create("over1", map[string]any{"deadlineMs": soon, "whenOver": "pause"})
	c.create("over2", map[string]any{"deadlineMs": soon, "whenOver": "stop"})
	waitFor(t, "the pause", func() bool { return c.state("over1") == "paused" })
	waitFor(t, "the stop", func() bool { return c.state("over2") == "stopped" })
	if state := c.must("sandbox.inspect", id("over2")); state["expired"] != true {
		t.Errorf("%v", state)
	}
	waitFor(t, "the event", func() bool {
		c.must("hello", map[string]any{})
		for _, e := range c.events {
			if e["event"] == "sandbox.exited" && e["id"] == "over2" && e["expired"] == true {
				return true
			}
		}
		return false
	})
	c.must("sandbox.resume", map[string]any{"id": "over1", "deadlineMs": 0})
	c.expect("running", "over1")
}

func TestAnInterruptedStartOrStopIsFinished(t *testing.T) {
	d := start(t)
	c := d.dial()
	for _, id := range []string{"cut01", "cut02"} {
		put(t, inside(c.create(id, nil), "/root/kept"), "kept")
	}
	c.must("sandbox.stop", id("cut02"))
	c.close()
	d.kill()
	for id, state := range map[string]string{"cut01": "stopping", "cut02": "starting"} {
		path := filepath.Join(d.home, "sandboxes", id, "handle.json")
		was := text(t, path)
		for _, old := range []string{"running", "stopped"} {
			was = strings.Replace(was, `"state":"`+old+`"`, `"state":"`+state+`"`, 1)
		}
		put(t, path, was)
	}
	d.run()
	c = d.dial()
	defer c.close()
	for _, id := range []string{"cut01", "cut02"} {
		c.expect("stopped", id)
		if text(t, inside(c.must("sandbox.start", c.args(id, nil)), "/root/kept")) != "kept" {
			t.Errorf("%s has lost its files", id)
		}
	}
	d.destroyAll()
	d.nothingLeft()
}

func TestAnExportedSnapshotCanBeImportedAndForked(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("orig1", nil)
	put(t, inside(made, "/root/file"), "carried")
	if err := os.Remove(inside(made, "/etc/profile")); err != nil {
		t.Fatal(err)
	}
	c.must("sandbox.stop", id("orig1"))
	c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "orig1"})
	written := c.must("snapshot.export", map[string]any{"id": "shot1", "file": "shot.tar.gz"})
	if again := c.must("snapshot.export", map[string]any{"id": "shot1", "file": "shot.tar.gz"}); again["digest"] != written["digest"] {
		t.Errorf("a second export: %v after %v", again, written)
	}
	c.must("snapshot.remove", id("shot1"))
	c.must("sandbox.destroy", id("orig1"))
	take := map[string]any{"id": "shot2", "owner": "test", "root": map[string]any{"kind": "host"}, "file": "shot.tar.gz", "digest": strings.Repeat("0", 64)}
	if result, code := c.call("snapshot.import", take); code != "data_loss" {
		t.Errorf("another digest: %v", result)
	}
	if entries, err := os.ReadDir(filepath.Join(d.home, "snapshots")); err != nil || len(entries) > 0 {
		t.Errorf("left: %v %v", entries, err)
	}
	take["digest"] = written["digest"]
	for i := 0; i < 2; i++ {
		c.must("snapshot.import", take)
	}
	fork := c.create("fork1", map[string]any{"snapshot": "shot2"})
	if text(t, inside(fork, "/root/file")) != "carried" {
		t.Error("the file is lost")
	}
	if _, err := os.Lstat(inside(fork, "/etc/profile")); !os.IsNotExist(err) {
		t.Errorf("a removed file came back: %v", err)
	}
	health(t, fork["socket"].(string))
	c.must("sandbox.destroy", id("fork1"))
	c.must("snapshot.remove", id("shot2"))
	d.nothingLeft()
}

func TestADiskLimitIsEnforcedInside(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	if c.must("hello", map[string]any{})["pool"].(map[string]any)["quotas"] != true {
		t.Skip("needs a pool with quotas")
	}
	made := c.create("full1", map[string]any{"resources": map[string]any{"diskBytes": 32 << 20}})
	if level := made["limits"].(map[string]any)["disk"].(map[string]any)["level"]; level != "enforced" {
		t.Errorf("the limit is %v", level)
	}
	err := os.WriteFile(inside(made, "/root/big"), make([]byte, 64<<20), 0o600)
	if !strings.Contains(fmt.Sprint(err), "quota") {
		t.Errorf("64 MiB in 32: %v", err)
	}
	os.Remove(inside(made, "/root/big"))
	if stats := c.must("sandbox.stats", id("full1")); stats["diskBytes"].(float64) > 40<<20 {
		t.Errorf("%v", stats)
	}
	// A start applies the limit.
	c.must("sandbox.stop", id("full1"))
	made = c.must("sandbox.start", c.args("full1", map[string]any{"resources": map[string]any{"diskBytes": 128 << 20}}))
	if err := os.WriteFile(inside(made, "/root/big"), make([]byte, 64<<20), 0o600); err != nil {
		t.Errorf("64 MiB in 128: %v", err)
	}
}

func TestNoProcessOfTheRuntimeStaysBehind(t *testing.T) {
	d := start(t)
	c := d.dial()
	for i := 0; i < 3; i++ {
		c.create(fmt.Sprintf("behind%d", i), nil)
	}
	isAlone := func() bool {
		running := 0
		for _, child := range childrenOf(t, d.cmd.Process.Pid) {
			switch state, name := child[0], child[1]; {
			case state == "Z":
				return false
			case name == "podd":
				running++
			}
		}
		return running >= 3
	}
	waitFor(t, "children that are sandboxes alone", isAlone)
}

// childrenOf returns state and name of each child.
func childrenOf(t *testing.T, pid int) [][2]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	children := [][2]string{}
	for _, entry := range entries {
		data, _ := os.ReadFile("/proc/" + entry.Name() + "/stat")
		_, after, isProcess := strings.Cut(string(data), " (")
		name, rest, _ := strings.Cut(after, ") ")
		if fields := strings.Fields(rest); isProcess && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			children = append(children, [2]string{fields[0], name})
		}
	}
	return children
}
