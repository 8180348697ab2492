// Package host is podhost's daemon: it owns the sandboxes of one state directory.
package host

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

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

const (
	idCount     = 65536
	defaultBase = 0x7F000000
)

// idRange returns the range of ids that sandboxes of this home run as. It is chosen once and kept: files in uppers carry it.
func idRange(home string, rootless bool) (mount.Range, error) {
	if rootless {
		// In podhost's user namespace 0 is the user and 1 begins the user's subordinate range.
		return mount.Range{Base: 1, Count: idCount}, nil
	}
	var kept struct {
		UIDBase  int `json:"uidBase"`
		UIDCount int `json:"uidCount"`
	}
	path := filepath.Join(home, "host.json")
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &kept); err != nil || kept.UIDBase <= 0 || kept.UIDCount != idCount {
			return mount.Range{}, fmt.Errorf("%s is damaged", path)
		}
		return mount.Range{Base: kept.UIDBase, Count: kept.UIDCount}, nil
	}
	taken := subordinateRanges("/etc/subuid", "/etc/subgid")
	base := defaultBase
	for overlaps(taken, base) {
		// Ids from 2^31 on are negative to careless programs, so the search goes down.
		if base -= idCount; base < idCount {
			return mount.Range{}, fmt.Errorf("/etc/subuid and /etc/subgid leave no range of %d ids", idCount)
		}
	}
	kept.UIDBase, kept.UIDCount = base, idCount
	data, err := json.Marshal(kept)
	if err != nil {
		return mount.Range{}, err
	}
	return mount.Range{Base: base, Count: idCount}, safefs.WriteFileSynced(path, data, 0o600)
}

func subordinateRanges(files ...string) []mount.Range {
	var ranges []mount.Range
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Split(lines.Text(), ":")
			if len(fields) != 3 {
				continue
			}
			base, err1 := strconv.Atoi(fields[1])
			count, err2 := strconv.Atoi(fields[2])
			if err1 == nil && err2 == nil {
				ranges = append(ranges, mount.Range{Base: base, Count: count})
			}
		}
		f.Close()
	}
	return ranges
}

func overlaps(taken []mount.Range, base int) bool {
	for _, r := range taken {
		if base < r.Base+r.Count && r.Base < base+idCount {
			return true
		}
	}
	return false
}
