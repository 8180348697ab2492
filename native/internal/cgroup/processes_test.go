package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// RS-18: many sandboxes must not use up the machine.
func TestAllSandboxesTogetherLeaveTheHostAQuarterOfItsProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m := Detect("test0001")
	defer m.Close()
	var all string
	switch made := m.(type) {
	case *v1:
		all = filepath.Dir(made.dirs["pids"])
	case *v2:
		all = filepath.Dir(made.dir)
	default:
		t.Skipf("no cgroups here: %+v", m)
	}
	most := mostProcesses(all, "/proc/sys/kernel")
	if limit := readInt(all, "pids.max"); limit == 0 || limit > most-most/4 {
		t.Errorf("all sandboxes have %d of %d processes", limit, most)
	}
}

func TestTheLowestProcessLimitOfMachineAndGroupsCounts(t *testing.T) {
	root, settings := t.TempDir(), t.TempDir()
	dir := filepath.Join(root, "user", "agentpod")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set := func(dir, file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want int64) {
		t.Helper()
		if most := mostProcesses(dir, settings); most != want {
			t.Errorf("%d, not %d", most, want)
		}
	}
	expect(0)
	set(settings, "pid_max", "4194304")
	expect(4194304)
	set(settings, "threads-max", "192686")
	expect(192686)
	for _, group := range []string{root, filepath.Join(root, "user"), dir} {
		set(group, "cgroup.procs", "")
		set(group, "pids.max", "max")
	}
	expect(192686)
	set(root, "pids.max", "63000")
	expect(63000)
	set(filepath.Join(root, "user"), "pids.max", "20000")
	expect(20000)
	// The group's own limit is the one that is about to be set.
	set(dir, "pids.max", "100")
	limitAllProcesses(dir)
	if limit := readInt(dir, "pids.max"); limit != 15000 {
		t.Errorf("the group has %d", limit)
	}
}
