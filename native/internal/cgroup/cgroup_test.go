package cgroup

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

func TestControlGroupsAreCreatedLimitedKilledAndRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m := Detect("test0000")
	if m.Version() == "none" {
		t.Skipf("no cgroups here: %+v", m)
	}
	defer m.Close()
	group, err := m.Create("abcd", Limits{MemoryBytes: 64 << 20, CPUs: 0.5, Pids: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	for _, name := range []string{"memory", "cpus", "pids"} {
		if group.Levels[name] != Enforced {
			t.Errorf("%s: %+v", name, group.Levels[name])
		}
	}
	if usage := m.Usage("abcd"); usage.MemLimit != 64<<20 || usage.PidLimit != 10 {
		t.Errorf("usage %+v", usage)
	}
	sleeper := exec.Command("sleep", "60")
	if err := group.Start(sleeper.Start); err != nil {
		t.Fatal(err)
	}
	if group.Procs != nil {
		if _, err := group.Procs.WriteString(strconv.Itoa(sleeper.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	if usage := m.Usage("abcd"); usage.Pids < 1 {
		t.Errorf("the process is not in the group: %+v", usage)
	}
	if ids := m.IDs(); len(ids) != 1 || ids[0] != "abcd" {
		t.Errorf("ids %v", ids)
	}
	if m.Freezes() {
		for i := 0; i < 2; i++ {
			if err := m.Freeze("abcd"); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Thaw("abcd"); err != nil {
			t.Fatal(err)
		}
		// It is frozen when it is killed: the kill must arrive.
		if err := m.Freeze("abcd"); err != nil {
			t.Fatal(err)
		}
	}
	m.Kill("abcd")
	if err := sleeper.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if err := m.Remove("abcd"); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove("abcd"); err != nil {
		t.Fatalf("a second removal: %v", err)
	}
	if ids := m.IDs(); len(ids) != 0 {
		t.Errorf("groups %v are still there", ids)
	}
}

func TestWithoutControlGroupsEachLimitHasAReason(t *testing.T) {
	group, err := none{reason: "a test"}.Create("abcd", Limits{MemoryBytes: 1, Pids: 1})
	if err != nil {
		t.Fatal(err)
	}
	if l := group.Levels["memory"]; l.Level != "none" || l.Reason != "no cgroups: a test" {
		t.Errorf("memory %+v", l)
	}
	if group.Levels["cpus"] != NotAsked {
		t.Errorf("cpus %+v", group.Levels["cpus"])
	}
}
