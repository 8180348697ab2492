package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

// A Snapshot is what <home>/snapshots/<id>/snapshot.json says. It is written last: a snapshot without it is half made.
type Snapshot struct {
	ID        string         `json:"id"`
	Owner     string         `json:"owner"`
	Sandbox   string         `json:"sandbox"`
	Root      hostproto.Root `json:"root"`
	SizeBytes int64          `json:"sizeBytes"`
	CreatedMs int64          `json:"createdMs"`
	Volume    bool           `json:"volume"`
	// NextNumber is higher than the number of any file in it; 0 where that was not to be known.
	NextNumber uint64 `json:"nextNumber,omitempty"`
}

func (s *Snapshot) files() pool.Entry {
	return pool.Entry{Area: pool.Snapshots, ID: s.ID, IsVolume: s.Volume}
}

func (s *Snapshot) view() any { return map[string]any{"sizeBytes": s.SizeBytes, "root": s.Root} }

func (h *Host) snapshotDir(id string) string { return filepath.Join(h.home, "snapshots", id) }

// loadSnapshot returns nil for one that is not there, or not whole.
func (h *Host) loadSnapshot(id string) (*Snapshot, error) {
	data, err := os.ReadFile(filepath.Join(h.snapshotDir(id), "snapshot.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil || s.ID != id {
		return nil, hostproto.Errorf(hostproto.DataLoss, "snapshot.damaged", "what is written about snapshot %s is damaged", id)
	}
	return &s, nil
}

func snapshotAbsent(id string) error {
	return hostproto.Errorf(hostproto.NotFound, "snapshot.absent", "there is no snapshot %s", id)
}

// reachable refuses a snapshot whose files are gone, or out of reach.
func (h *Host) reachable(s *Snapshot) error {
	there, err := h.pool.Has(s.files())
	if err == nil && !there {
		err = hostproto.Errorf(hostproto.DataLoss, "snapshot.files", "the files of snapshot %s are gone", s.ID)
	}
	return err
}

func (h *Host) snapshotIDs() []string { return idsIn(filepath.Join(h.home, "snapshots")) }

func (h *Host) listSnapshots(after string) any {
	snapshots, next := []any{}, ""
	for _, id := range h.snapshotIDs() {
		if id <= after {
			continue
		}
		s, err := h.loadSnapshot(id)
		if err != nil || s == nil {
			continue
		}
		if len(snapshots) == pageLength {
			break
		}
		if snapshots = append(snapshots, map[string]any{"id": s.ID, "owner": s.Owner, "sandbox": s.Sandbox, "root": s.Root,
			"sizeBytes": s.SizeBytes, "createdMs": s.CreatedMs}); len(snapshots) == pageLength {
			next = s.ID
		}
	}
	return map[string]any{"snapshots": snapshots, "next": next}
}

// recoverSnapshots removes what is half made, and pool entries that nobody knows. What is known of a snapshot stays, be its files lost or out of reach.
func (h *Host) recoverSnapshots() {
	for _, id := range h.snapshotIDs() {
		s, err := h.loadSnapshot(id)
		if err != nil {
			h.log.Printf("%s: %v", id, err)
			continue
		}
		if s != nil {
			if there, err := h.pool.Has(s.files()); !there && err == nil {
				h.log.Printf("%s: the snapshot's files are gone", id)
			}
			continue
		}
		if err := h.dropSnapshot(h.pool.Found(pool.Snapshots, id)); err != nil {
			h.log.Printf("%s: recover: %v", id, err)
		}
	}
	for _, area := range []pool.Area{pool.Sandboxes, pool.Snapshots} {
		for _, id := range h.pool.IDs(area) {
			if _, err := os.Lstat(filepath.Join(h.home, string(area), id)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err := h.pool.Remove(pool.Entry{Area: area, ID: id, IsVolume: true}); err != nil {
				h.log.Printf("pool: %s of nobody: %v", id, err)
			}
		}
	}
}
