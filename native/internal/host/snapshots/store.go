// Package snapshots keeps the snapshots of one state directory: their records, and their files in the pool.
package snapshots

import (
	"encoding/json"
	"errors"
	"log"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"agentpod/native/internal/host/statedir"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/keylock"
	"agentpod/native/internal/layer"
	"agentpod/native/internal/memoryimage"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"
)

// A Snapshot is the content of <home>/snapshots/<id>/snapshot.json. That file is written last: a snapshot
// without it is incomplete.
type Snapshot struct {
	ID        string         `json:"id"`
	Owner     string         `json:"owner"`
	Sandbox   string         `json:"sandbox"`
	Root      hostproto.Root `json:"root"`
	SizeBytes int64          `json:"sizeBytes"`
	CreatedMs int64          `json:"createdMs"`
	// Runtime is that of the sandbox; empty for the host's kernel.
	Runtime string `json:"runtime,omitempty"`
	Volume  bool   `json:"volume"`
	// Memory is set if it has the memory of the sandbox's processes, in the directory `memory` beside the
	// record.
	Memory *memoryimage.Image `json:"memory,omitempty"`
	// NextNumber is higher than the inode number of any file in it; 0 if that is not known.
	NextNumber uint64 `json:"nextNumber,omitempty"`
}

// MemoryDir is the directory with the memory of a snapshot.
func (st *Store) MemoryDir(id string) string { return filepath.Join(st.dir(id), "memory") }

// Files is the snapshot's entry in the pool.
func (s *Snapshot) Files() pool.Entry {
	return pool.Entry{Area: pool.Snapshots, ID: s.ID, IsVolume: s.Volume}
}

func (s *Snapshot) view() any {
	view := map[string]any{"sizeBytes": s.SizeBytes, "root": s.Root}
	if s.Memory != nil {
		view["memoryBytes"] = s.Memory.Bytes
	}
	return view
}

// Options is what a Store works with.
type Options struct {
	Home   string
	Pool   *pool.Pool
	Layers *layer.Store
	// Layout is how the files of snapshots are stored on the disk.
	Layout layer.Layout
	// RemoveMemory removes what is kept of a snapshot's memory elsewhere.
	RemoveMemory func(snapshot string) error
	Locks        *keylock.Locks
	Log          *log.Logger
}

// A Store has the snapshots of one state directory.
type Store struct {
	Options
	// writing counts the requests that write many files.
	writing int32
	inUse   struct {
		mu sync.Mutex
		// requests counts, by snapshot, the requests that are making something on top of it.
		requests map[string]int
	}
}

// New returns the store of a state directory.
func New(options Options) *Store {
	s := &Store{Options: options}
	s.inUse.requests = map[string]int{}
	return s
}

// IsWriting reports whether a request is writing many files to the pool.
func (st *Store) IsWriting() bool { return atomic.LoadInt32(&st.writing) > 0 }

func (st *Store) startWriting() (done func()) {
	atomic.AddInt32(&st.writing, 1)
	return func() { atomic.AddInt32(&st.writing, -1) }
}

func (st *Store) dir(id string) string        { return filepath.Join(st.Home, "snapshots", id) }
func (st *Store) recordPath(id string) string { return filepath.Join(st.dir(id), "snapshot.json") }

// upper is the directory of a snapshot's files.
func (st *Store) upper(s *Snapshot) string { return filepath.Join(st.Pool.Path(s.Files()), "upper") }

// IDs returns the ids of all snapshots, incomplete ones included.
func (st *Store) IDs() []string { return statedir.IDs(filepath.Join(st.Home, "snapshots")) }

// Load returns nil for a snapshot that does not exist or is incomplete.
func (st *Store) Load(id string) (*Snapshot, error) {
	data, err := os.ReadFile(st.recordPath(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil || s.ID != id {
		return nil, hostproto.Errorf(hostproto.DataLoss, "snapshot.damaged", "the record of snapshot %s is damaged", id)
	}
	return &s, nil
}

// Has reports whether there is a complete snapshot.
func (st *Store) Has(id string) bool {
	_, err := os.Lstat(st.recordPath(id))
	return err == nil
}

func absent(id string) error {
	return hostproto.Errorf(hostproto.NotFound, "snapshot.absent", "there is no snapshot %s", id)
}

// existing is Load for a snapshot that must exist.
func (st *Store) existing(id string) (*Snapshot, error) {
	s, err := st.Load(id)
	if err == nil && s == nil {
		err = absent(id)
	}
	return s, err
}

// usable is existing for a snapshot whose files must be there, too.
func (st *Store) usable(id string) (*Snapshot, error) {
	s, err := st.existing(id)
	if err != nil {
		return nil, err
	}
	there, err := st.Pool.Has(s.Files())
	if err == nil && !there {
		err = hostproto.Errorf(hostproto.DataLoss, "snapshot.files", "the files of snapshot %s are lost", s.ID)
	}
	return s, err
}

// Origin returns the sandbox that a snapshot was taken of, or "" if that is not known.
func (st *Store) Origin(id string) string {
	s, err := st.Load(id)
	if err != nil || s == nil {
		return ""
	}
	return s.Sandbox
}

// List returns a page of the snapshots whose ids sort after the given one.
func (st *Store) List(after string) any {
	snapshots, next := []any{}, ""
	for _, id := range st.IDs() {
		if id <= after {
			continue
		}
		s, err := st.Load(id)
		if err != nil || s == nil {
			continue
		}
		if len(snapshots) == hostproto.PageLength {
			break
		}
		if snapshots = append(snapshots, map[string]any{"id": s.ID, "owner": s.Owner, "sandbox": s.Sandbox, "root": s.Root,
			"sizeBytes": s.SizeBytes, "createdMs": s.CreatedMs, "runtime": s.Runtime}); len(snapshots) == hostproto.PageLength {
			next = s.ID
		}
	}
	return map[string]any{"snapshots": snapshots, "next": next}
}

// save writes the record, which completes a snapshot.
func (st *Store) save(s *Snapshot) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return safefs.WriteFileSynced(st.recordPath(s.ID), data, 0o600)
}

// removeRecord makes a snapshot incomplete. Its files are still to be removed.
func (st *Store) removeRecord(id string) error {
	if err := os.Remove(st.recordPath(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// drop removes a snapshot. The record goes first, so that a part of the files is never mistaken for all of
// them.
func (st *Store) drop(files pool.Entry) error {
	if err := st.removeRecord(files.ID); err != nil {
		return err
	}
	if err := st.Pool.Remove(files); err != nil {
		return err
	}
	if _, err := os.Lstat(st.MemoryDir(files.ID)); err == nil {
		if err := st.RemoveMemory(files.ID); err != nil {
			return err
		}
	}
	return safefs.RemoveTree(filepath.Join(st.Home, "snapshots"), files.ID)
}

// Recover removes incomplete snapshots, and entries of the pool that have no record. It keeps the record of a
// snapshot whose files are lost or cannot be reached.
func (st *Store) Recover() {
	for _, id := range st.IDs() {
		s, err := st.Load(id)
		if err != nil {
			st.Log.Printf("%s: %v", id, err)
			continue
		}
		if s != nil {
			if there, err := st.Pool.Has(s.Files()); !there && err == nil {
				st.Log.Printf("%s: the snapshot's files are lost", id)
			}
			continue
		}
		if err := st.drop(st.Pool.Locate(pool.Snapshots, id)); err != nil {
			st.Log.Printf("%s: recover: %v", id, err)
		}
	}
	for _, area := range []pool.Area{pool.Sandboxes, pool.Snapshots} {
		for _, id := range st.Pool.IDs(area) {
			if _, err := os.Lstat(filepath.Join(st.Home, string(area), id)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err := st.Pool.Remove(pool.Entry{Area: area, ID: id, IsVolume: true}); err != nil {
				st.Log.Printf("pool: %s without a record: %v", id, err)
			}
		}
	}
}
