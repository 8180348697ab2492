package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestADestroyedSandboxLeavesNothingBehind(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("life1", nil)
	pid, socket := int(made["pid"].(float64)), made["socket"].(string)
	if status := health(t, socket); status != "HTTP/1.1 204 No Content" {
		t.Errorf("podd answered %q", status)
	}
	if state := c.must("sandbox.inspect", id("life1")); state["state"] != "running" || state["pid"] != made["pid"] {
		t.Errorf("inspect: %v", state)
	}
	if _, code := c.call("sandbox.create", map[string]any{"id": "life1", "owner": "x", "hostname": "box",
		"root": map[string]any{"kind": "host"}, "resources": map[string]any{}, "deadlineMs": 0}); code != "already_exists" {
		t.Errorf("a second create: %q", code)
	}
	if stats := c.must("sandbox.stats", id("life1")); stats["pids"].(float64) < 1 || stats["memLimitBytes"].(float64) != 256<<20 {
		t.Errorf("stats: %v", stats)
	}
	c.must("sandbox.destroy", id("life1"))
	c.must("sandbox.destroy", id("life1"))
	if state := c.must("sandbox.inspect", id("life1")); state["state"] != "absent" {
		t.Errorf("after destroy: %v", state)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("process %d: %v", pid, err)
	}
	d.nothingLeft()
}

func id(id string) map[string]any { return map[string]any{"id": id} }

// nothingLeft looks for mounts, groups, processes and files from outside.
func (d *daemon) nothingLeft() {
	d.t.Helper()
	for _, dir := range []string{"sandboxes", "run/s"} {
		if entries, err := os.ReadDir(filepath.Join(d.home, dir)); err != nil || len(entries) > 0 {
			d.t.Errorf("%s: %v %v", dir, entries, err)
		}
	}
	for _, pid := range []string{"self", fmt.Sprint(d.cmd.Process.Pid)} {
		mounts, _ := os.ReadFile("/proc/" + pid + "/mountinfo")
		for _, line := range strings.Split(string(mounts), "\n") {
			if strings.Contains(line, "/mnt/root/") || (pid == "self" && strings.Contains(line, d.home)) {
				d.t.Errorf("mount of %s: %s", pid, line)
			}
		}
	}
	for _, group := range d.groups() {
		d.t.Errorf("group %s", group)
	}
}

// groups lists the control groups of sandboxes.
func (d *daemon) groups() []string {
	sum := sha256.Sum256([]byte(d.home))
	scope := hex.EncodeToString(sum[:4])
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/agentpod/" + scope + "/*", "/sys/fs/cgroup/agentpod/" + scope + "/*"} {
		matches, _ := filepath.Glob(pattern)
		for _, match := range matches {
			if info, err := os.Stat(match); err == nil && info.IsDir() {
				found = append(found, match)
			}
		}
	}
	return found
}

func TestPoddGetsItsDescriptorsAndNothingOfTheHost(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("fds01", nil)
	pid := int(made["pid"].(float64))
	links, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, link.Name()))
		if errors.Is(err, os.ErrNotExist) {
			// podd used it for a moment and closed it.
			continue
		}
		known := target == "/dev/null" || strings.HasSuffix(target, ".log") || strings.HasPrefix(target, "socket:") ||
			strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "/sys/fs/cgroup/") || strings.HasPrefix(target, "pipe:")
		if !known {
			t.Errorf("descriptor %s is %s", link.Name(), target)
		}
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || strings.Contains(string(environ), "canary") {
		t.Errorf("environment %q, %v", environ, err)
	}
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid)); err != nil || strings.Fields(string(data))[1] == "0" {
		t.Errorf("uid_map %q, %v", data, err)
	}
	root := fmt.Sprintf("/proc/%d/root", pid)
	for _, hidden := range []string{d.home, "/etc/ssh", "/etc/sudoers", "/root/.ssh", "/root/.bashrc", "/var/lib/dpkg"} {
		if _, err := os.Lstat(root + hidden); err == nil {
			t.Errorf("%s is visible inside", hidden)
		}
	}
	// SECURITY: PR-03, without seccomp: even root of the namespace, with every capability, cannot make a
	// nested one.
	nested := exec.Command("nsenter", "-U", "-S", "0", "-G", "0", "-t", fmt.Sprint(pid), "unshare", "-U", "true")
	if output, err := nested.CombinedOutput(); err == nil {
		t.Errorf("a nested user namespace was made: %s", output)
	}
}

func TestARestartedPodhostFindsItsSandboxes(t *testing.T) {
	d := start(t)
	c := d.dial()
	kept := c.create("kept1", nil)
	lost := c.create("lost1", nil)
	// What a podhost that is killed at a bad moment leaves behind.
	for name, state := range map[string]string{"half1": "creating", "half2": "destroying"} {
		dir := filepath.Join(d.home, "sandboxes", name)
		write(t, dir+"/upper/x/y", "")
		write(t, dir+"/handle.json", fmt.Sprintf(`{"id":%q,"state":%q,"pid":1,"startTime":1}`, name, state))
	}
	write(t, filepath.Join(d.home, "sandboxes/bare1/upper/x"), "")
	write(t, filepath.Join(d.home, "layers/.tmp-1/tree/x"), "")
	write(t, filepath.Join(d.home, "sandboxes/torn1/handle.json"), "{")
	orphan := filepath.Join(filepath.Dir(d.groups()[0]), "orphan1")
	if err := os.Mkdir(orphan, 0o755); err != nil {
		t.Fatal(err)
	}
	c.close()
	d.kill()
	if status := health(t, kept["socket"].(string)); status != "HTTP/1.1 204 No Content" {
		t.Errorf("without podhost podd answers %q", status)
	}
	unix.Kill(int(lost["pid"].(float64)), unix.SIGKILL)
	time.Sleep(100 * time.Millisecond)
	d.run()
	c = d.dial()
	defer c.close()
	states := map[string]any{}
	for _, s := range c.must("sandbox.list", map[string]any{})["sandboxes"].([]any) {
		states[s.(map[string]any)["id"].(string)] = s.(map[string]any)["state"]
	}
	if len(states) != 3 || states["kept1"] != "running" || states["lost1"] != "exited" || states["torn1"] != "exited" {
		t.Errorf("found %v", states)
	}
	for _, path := range []string{orphan, filepath.Join(d.home, "layers/.tmp-1"), filepath.Join(d.home, "sandboxes/half1"),
		filepath.Join(d.home, "sandboxes/half2"), filepath.Join(d.home, "sandboxes/bare1")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if status := health(t, kept["socket"].(string)); status != "HTTP/1.1 204 No Content" {
		t.Errorf("afterwards podd answers %q", status)
	}
	for _, name := range []string{"kept1", "lost1", "torn1"} {
		c.must("sandbox.destroy", id(name))
	}
	d.nothingLeft()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessWithARecycledPidIsNotTouched(t *testing.T) {
	d := start(t)
	d.stop()
	bystander := exec.Command("sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Process.Kill()
	write(t, filepath.Join(d.home, "sandboxes/reuse/handle.json"),
		fmt.Sprintf(`{"id":"reuse","state":"running","pid":%d,"startTime":5,"deadlineMs":1}`, bystander.Process.Pid))
	d.run()
	c := d.dial()
	defer c.close()
	if state := c.must("sandbox.inspect", id("reuse")); state["state"] != "exited" {
		t.Errorf("inspect: %v", state)
	}
	c.must("sandbox.destroy", id("reuse"))
	if startedAgain := unix.Kill(bystander.Process.Pid, 0); startedAgain != nil {
		t.Errorf("the bystander is gone: %v", startedAgain)
	}
}

func TestADeadlineEndsASandboxWithoutAServer(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	c.create("late1", map[string]any{"deadlineMs": time.Now().Add(time.Hour).UnixMilli()})
	c.must("sandbox.deadline", map[string]any{"id": "late1", "deadlineMs": time.Now().Add(-1500 * time.Millisecond).UnixMilli()})
	for len(c.events) == 0 {
		if message := c.read(); message["event"] != nil {
			c.events = append(c.events, message)
		}
	}
	if e := c.events[0]; e["event"] != "sandbox.exited" || e["id"] != "late1" || e["expired"] != true {
		t.Errorf("event %v", e)
	}
	if state := c.must("sandbox.inspect", id("late1")); state["state"] != "exited" || state["expired"] != true {
		t.Errorf("inspect: %v", state)
	}
}

func TestConcurrentAndRepeatedCreatesSucceed(t *testing.T) {
	d := start(t)
	var wait sync.WaitGroup
	pids := make(chan any, 4)
	for i := 0; i < 12; i++ {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			c := d.dial()
			defer c.close()
			args := map[string]any{"id": fmt.Sprintf("many%02d", i), "owner": "test", "hostname": "box", "root": map[string]any{"kind": "host"},
				"resources": map[string]any{}, "deadlineMs": 0}
			if i >= 8 {
				args["id"] = "same"
			}
			result, code := c.call("sandbox.create", args)
			if code != "" {
				t.Errorf("create %d: %s", i, code)
			}
			if i >= 8 {
				pids <- result["pid"]
			}
		}(i)
	}
	wait.Wait()
	first := <-pids
	for i := 1; i < 4; i++ {
		if pid := <-pids; pid != first {
			t.Errorf("one id, two sandboxes: %v and %v", first, pid)
		}
	}
	c := d.dial()
	defer c.close()
	if _, code := c.call("sandbox.create", map[string]any{"id": "same", "owner": "other", "hostname": "box",
		"root": map[string]any{"kind": "host"}, "resources": map[string]any{}, "deadlineMs": 0}); code != "already_exists" {
		t.Errorf("somebody else's id: %q", code)
	}
	d.destroyAll()
	d.nothingLeft()
}

func TestASecondPodhostForTheSameStateDirectoryExits(t *testing.T) {
	d := start(t)
	second := exec.Command(filepath.Join(binaries, "podhost"), "serve", "--home", d.home, "--podd", filepath.Join(binaries, "podd"))
	output, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "another podhost serves") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestGarbageOnTheSocketDoesNotDisturbOtherClients(t *testing.T) {
	d := start(t)
	good := d.dial()
	defer good.close()
	good.must("hello", map[string]any{})
	long := strings.Repeat("x", 2<<20)
	for name, text := range map[string]string{
		"binary": "\x00\x01\xff\xfe\n", "empty lines": "\n\n\n", "deep": strings.Repeat(`{"a":`, 100_000) + "\n", "too long": long,
		"too long with newline": long + "\n", "half a line": `{"v":1,"id":1,"op":"hel`, "long text": `{"v":1,"id":1,"op":"` + long[:1<<19] + "\"}\n",
		"no such op": `{"v":1,"id":1,"op":"sandbox.exec","args":{}}` + "\n",
	} {
		bad := d.dial()
		bad.conn.Write([]byte(text))
		if strings.HasSuffix(text, "\n") {
			if message := bad.read(); message["error"] == nil {
				t.Errorf("%s: %v", name, message)
			}
		}
		bad.close()
	}
	good.must("hello", map[string]any{})
	if _, code := good.call("layer.import", map[string]any{"digest": strings.Repeat("0", 64), "file": "absent"}); code != "not_found" {
		t.Errorf("code %s", code)
	}
}

func TestProbeFindsThisHostSuitable(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	for _, item := range c.must("probe", map[string]any{})["checks"].([]any) {
		check := item.(map[string]any)
		if check["required"] == true && check["ok"] != true {
			t.Errorf("%v", check)
		}
	}
	d.nothingLeft()
}

func TestClearRemovesBaseTreesUnlessASandboxExists(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	c.create("stay1", nil)
	if _, code := c.call("clear", map[string]any{}); code != "conflict" {
		t.Errorf("with a sandbox: %q", code)
	}
	c.must("sandbox.destroy", id("stay1"))
	c.must("clear", map[string]any{})
	if entries, err := os.ReadDir(filepath.Join(d.home, "base")); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	c.create("back1", nil)
}
