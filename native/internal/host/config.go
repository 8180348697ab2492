// Package host is podhost's daemon: it owns the sandboxes of one state directory.
package host

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/safefs"
)

// Config is what podhost is started with.
type Config struct {
	Home, Podd, Runtime string
	Rootless            bool
	// NoCgroup is why systemd gave an ordinary user no cgroup; empty where it did.
	NoCgroup string
	// Shells is how many blank shells to keep ready.
	Shells  int
	Version string
}

// Runtime is the OCI runtime in use; an empty Path means there is none.
type Runtime struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version"`
}

func findRuntime(path string) Runtime {
	if path == "" {
		path, _ = exec.LookPath("crun")
	}
	if path == "" {
		return Runtime{}
	}
	output, err := exec.Command(path, "--version").Output()
	if err != nil {
		return Runtime{}
	}
	first, _, _ := strings.Cut(string(output), "\n")
	name, version, _ := strings.Cut(first, " version ")
	return Runtime{Name: name, Path: path, Version: version}
}

const defaultBase = 0x7F000000

// storedRange returns the range of ids that the files of this home's sandboxes are stored with. It is chosen once and kept.
func storedRange(home string, rootless bool) (mount.Range, error) {
	if rootless {
		// In podhost's user namespace 0 is the user and 1 begins the user's subordinate range.
		return mount.Range{Base: 1, Count: ids.Count}, nil
	}
	var kept struct {
		UIDBase  int `json:"uidBase"`
		UIDCount int `json:"uidCount"`
	}
	path := filepath.Join(home, "host.json")
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &kept); err != nil || kept.UIDBase <= 0 || kept.UIDCount != ids.Count {
			return mount.Range{}, fmt.Errorf("%s is damaged", path)
		}
		return mount.Range{Base: kept.UIDBase, Count: kept.UIDCount}, nil
	}
	occupied := ids.Occupied()
	base := defaultBase
	for ids.Overlaps(occupied, base) {
		// Ids from 2^31 on are negative to careless programs, so the search goes down.
		if base -= ids.Count; base < ids.Count {
			return mount.Range{}, fmt.Errorf("/etc/subuid, /etc/subgid, /etc/passwd and /etc/group leave no range of %d ids", ids.Count)
		}
	}
	kept.UIDBase, kept.UIDCount = base, ids.Count
	data, err := json.Marshal(kept)
	if err != nil {
		return mount.Range{}, err
	}
	return mount.Range{Base: base, Count: ids.Count}, safefs.WriteFileSynced(path, data, 0o600)
}
