package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startAsUser starts the podhost of an ordinary user. It prints when it is ready and continues in the
// background.
func startAsUser(t *testing.T) *daemon {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user")
	}
	home, err := os.MkdirTemp("/tmp", "podhost-home-")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, home: home}
	d.run()
	t.Cleanup(func() {
		d.destroyAll()
		c := d.dial()
		c.must("shutdown", map[string]any{})
		c.close()
		os.RemoveAll(home)
	})
	return d
}

// TestLimitsAreEnforcedInADelegatedGroup needs a machine with cgroup v2 and either systemd or a group that
// root gave to this user; test/long/cgroup-v2.test.ts makes one of each.
func TestLimitsAreEnforcedInADelegatedGroup(t *testing.T) {
	d := startAsUser(t)
	c := d.dial()
	c.conn.SetDeadline(time.Now().Add(5 * time.Minute))
	hello := c.must("hello", map[string]any{})
	if hello["rootless"] != true || hello["cgroup"] != "v2" || hello["freezer"] != "cgroup" {
		t.Fatalf("hello: %v, probe: %v", hello, c.must("probe", map[string]any{}))
	}
	base := text(t, filepath.Join(d.home, "run/cgroup"))
	if want := os.Getenv("AGENTPOD_TEST_GROUP"); want == "" || !strings.Contains(base, want) {
		t.Errorf("the groups are in %s, not in %s", base, want)
	}
	made := c.create("held1", map[string]any{"resources": map[string]any{"memoryBytes": 64 << 20, "pids": 32, "cpus": 0.5, "files": 512}})
	initialize(t, made, `{}`)
	limits := made["limits"].(map[string]any)
	for _, name := range []string{"memory", "cpus", "pids"} {
		if level := limits[name].(map[string]any); level["level"] != "enforced" {
			t.Errorf("%s: %v", name, level)
		}
	}
	group, _ := filepath.Glob(filepath.Join(base, "agentpod/*/held1"))
	if len(group) != 1 {
		t.Fatalf("groups %v", group)
	}
	limitsHold(t, c, made, group[0])
	itStandsStill(t, c, made, group[0])
	// The next podhost starts elsewhere and finds its sandbox in the group of the one before.
	c.close()
	unix.Kill(int(hello["pid"].(float64)), unix.SIGKILL)
	waitFor(t, "the end of podhost", func() bool { return unix.Kill(int(hello["pid"].(float64)), 0) == unix.ESRCH })
	d.run()
	c = d.dial()
	defer c.close()
	c.expect("running", "held1")
	if now := text(t, filepath.Join(d.home, "run/cgroup")); now != base {
		t.Errorf("the groups were in %s and are in %s", base, now)
	}
	if stats := c.must("sandbox.stats", id("held1")); stats["memLimitBytes"].(float64) != 64<<20 {
		t.Errorf("stats: %v", stats)
	}
	c.create("held2", nil)
	for _, name := range []string{"held1", "held2"} {
		c.must("sandbox.destroy", id(name))
	}
	if left, _ := filepath.Glob(filepath.Join(base, "agentpod/*/held*")); len(left) > 0 {
		t.Errorf("groups %v", left)
	}
}

// limitsHold exceeds each limit from inside.
func limitsHold(t *testing.T, c *client, made map[string]any, group string) {
	t.Helper()
	if said, code := sh(t, made, "head -c 16m /dev/zero | tail -c 16m | wc -c"); code != 0 || strings.TrimSpace(said) != fmt.Sprint(16<<20) {
		t.Errorf("below the limit of memory: %q, %d", said, code)
	}
	if said, code := sh(t, made, "head -c 200m /dev/zero | tail -c 200m >/dev/null; exit ${PIPESTATUS[1]}"); code != 137 {
		t.Errorf("above the limit of memory: %q, %d", said, code)
	}
	if stats := c.must("sandbox.stats", id("held1")); stats["oomKills"].(float64) < 1 || stats["pidsLimit"].(float64) != 32 {
		t.Errorf("stats: %v", stats)
	}
	// A fork takes half a second if the machine is emulated and busy; all of them have to run at once.
	sh(t, made, "timeout -s KILL 40 bash -c 'for i in {1..40}; do sleep 30 >/dev/null 2>&1 & done'")
	if events := text(t, filepath.Join(group, "payload/pids.events")); !strings.HasPrefix(events, "max ") || strings.HasPrefix(events, "max 0") {
		t.Errorf("pids.events: %s", events)
	}
	sh(t, made, "timeout 3 bash -c 'while :; do :; done'")
	if stat := text(t, filepath.Join(group, "cpu.stat")); strings.Contains(stat, "nr_throttled 0\n") {
		t.Errorf("half a processor was never kept to: %s", stat)
	}
}

// itStandsStill pauses the sandbox while a process in it uses the processor.
func itStandsStill(t *testing.T, c *client, made map[string]any, group string) {
	t.Helper()
	sh(t, made, "setsid bash -c 'while :; do :; done' >/dev/null 2>&1 &")
	used := func() string {
		usage, _, _ := strings.Cut(text(t, filepath.Join(group, "cpu.stat")), "\n")
		return usage
	}
	for before := used(); used() == before; {
		time.Sleep(10 * time.Millisecond)
	}
	c.must("sandbox.pause", id("held1"))
	if events := text(t, filepath.Join(group, "cgroup.events")); !strings.Contains(events, "frozen 1") {
		t.Errorf("cgroup.events: %s", events)
	}
	before := used()
	time.Sleep(300 * time.Millisecond)
	if now := used(); now != before {
		t.Errorf("paused, it went from %s to %s", before, now)
	}
	c.must("sandbox.resume", map[string]any{"id": "held1", "deadlineMs": 0})
	waitFor(t, "it to go on", func() bool { return used() != before })
	if status := health(t, made["socket"].(string)); status != "HTTP/1.1 204 No Content" {
		t.Errorf("podd answered %q", status)
	}
}
