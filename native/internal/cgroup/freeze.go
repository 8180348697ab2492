package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// freezeTimeout is how long the processes of a group may take to freeze. It usually takes a millisecond; a
// process that waits in the kernel for a disk takes as long as the disk.
const freezeTimeout = 3 * time.Second

func (m *v1) Freezes() bool { return m.dirs["freezer"] != "" }

func (m *v1) Freeze(id string) error {
	root, there := m.dirs["freezer"]
	if !there {
		return fmt.Errorf("no freezer controller")
	}
	dir := filepath.Join(root, id)
	err := write(dir, "freezer.state", "FROZEN")
	if err == nil {
		err = untilFrozen(func() bool { return readText(dir, "freezer.state") == "FROZEN" })
	}
	if err != nil {
		m.Thaw(id)
	}
	return err
}

func (m *v1) Thaw(id string) error {
	root, there := m.dirs["freezer"]
	if !there {
		return nil
	}
	return ignoreAbsent(write(filepath.Join(root, id), "freezer.state", "THAWED"))
}

func (m *v2) Freezes() bool { return m.freezes }

func (m *v2) Freeze(id string) error {
	dir := filepath.Join(m.dir, id)
	err := write(dir, "cgroup.freeze", "1")
	if err == nil {
		err = untilFrozen(func() bool { return readField(dir, "cgroup.events", "frozen") == 1 })
	}
	if err != nil {
		m.Thaw(id)
	}
	return err
}

func (m *v2) Thaw(id string) error {
	return ignoreAbsent(write(filepath.Join(m.dir, id), "cgroup.freeze", "0"))
}

func (n none) Freezes() bool       { return false }
func (n none) Freeze(string) error { return fmt.Errorf("no cgroups: %s", n.reason) }
func (n none) Thaw(string) error   { return nil }

func untilFrozen(isFrozen func() bool) error {
	deadline := time.Now().Add(freezeTimeout)
	for wait := 50 * time.Microsecond; !isFrozen(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("a process did not stop within %v", freezeTimeout)
		}
		time.Sleep(wait)
		if wait < 10*time.Millisecond {
			wait *= 2
		}
	}
	return nil
}

func ignoreAbsent(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func readText(dir, file string) string {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(data))
}
