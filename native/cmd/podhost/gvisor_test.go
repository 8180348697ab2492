package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runsc returns the gVisor program for tests; they are skipped without one.
func runsc(t *testing.T) string {
	t.Helper()
	path := os.Getenv("AGENTPOD_RUNSC")
	if path == "" {
		t.Skip("needs AGENTPOD_RUNSC, the path of gVisor's runsc")
	}
	return path
}

func TestAGVisorSandboxLivesAndLeavesNothingBehind(t *testing.T) {
	d := startWith(t, daemon{flags: []string{"--runsc", runsc(t)}})
	c := d.dial()
	defer c.close()
	made := c.create("gvis1", map[string]any{"runtime": "gvisor"})
	if status := health(t, made["socket"].(string)); status != "HTTP/1.1 204 No Content" {
		t.Errorf("podd answered %q", status)
	}
	if level := made["network"].(map[string]any)["level"]; level != "transparent" {
		t.Errorf("network: %v", made["network"])
	}
	pid := int(made["pid"].(float64))
	c.must("sandbox.destroy", id("gvis1"))
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("process %d: %v", pid, err)
	}
	d.nothingLeft()
	if log, _ := os.ReadFile(d.home + "/log"); strings.Contains(string(log), "panic") {
		t.Errorf("%s", log)
	}
}
