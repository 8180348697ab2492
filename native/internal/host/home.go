package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/safefs"
)

// makeDirectories makes the directories of a state directory.
func makeDirectories(home string) error {
	for _, dir := range []string{"run/s", "sandboxes", "snapshots", "volumes", "machines", "layers", "base", "tmp"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// scopeOf distinguishes the control groups of several state directories on one machine.
func scopeOf(home string) string {
	sum := sha256.Sum256([]byte(home))
	return hex.EncodeToString(sum[:4])
}

const defaultBase = 0x7F000000

// storedRange returns the range of ids that the files of sandboxes have on the disk. It is chosen once and
// kept.
func storedRange(home string, rootless bool) (mount.Range, error) {
	if rootless {
		// In podhost's user namespace 0 is the user, and the user's subordinate range begins at 1.
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
		// Careless programs read ids from 2^31 on as negative numbers, so the search goes down.
		if base -= ids.Count; base < ids.Count {
			return mount.Range{}, fmt.Errorf("no free range of %d ids: /etc/subuid, /etc/subgid, /etc/passwd and /etc/group use them all", ids.Count)
		}
	}
	kept.UIDBase, kept.UIDCount = base, ids.Count
	data, err := json.Marshal(kept)
	if err != nil {
		return mount.Range{}, err
	}
	return mount.Range{Base: base, Count: ids.Count}, safefs.WriteFileSynced(path, data, 0o600)
}
