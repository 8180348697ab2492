// Package volumes keeps the volumes of one state directory: directories that sandboxes mount, and that
// outlive them. A volume has a record, and an entry in the pool.
package volumes

import (
	"encoding/json"
	"errors"
	"log"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/statedir"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/keylock"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"
)

// maxEntries bounds how many files are counted where the file system does not count.
const maxEntries = 200_000

// A Volume is the content of <home>/volumes/<id>/volume.json. That file is written last: a volume without it
// is incomplete.
type Volume struct {
	ID        string `json:"id"`
	Owner     string `json:"owner"`
	SizeBytes int64  `json:"sizeBytes"`
	CreatedMs int64  `json:"createdMs"`
	// Volume: the files are a subvolume of the pool.
	Volume bool `json:"volume"`
	// Limit says whether the size is enforced.
	Limit cgroup.Level `json:"limit"`
	// IsUsed: a sandbox has mounted it.
	IsUsed bool `json:"isUsed,omitempty"`
}

func (v *Volume) files() pool.Entry {
	return pool.Entry{Area: pool.Volumes, ID: v.ID, IsVolume: v.Volume}
}

// Users can tell which sandbox has a volume.
type Users interface {
	// UserOfVolume returns the id of a sandbox (in any state) that mounts the volume, or "".
	UserOfVolume(id string) string
}

// Options is what a Store works with.
type Options struct {
	Home string
	// Stored is the range of ids that files in volumes have on the disk.
	Stored mount.Range
	Pool   *pool.Pool
	Locks  *keylock.Locks
	Log    *log.Logger
}

// A Store has the volumes of one state directory.
type Store struct{ Options }

// New returns the store of a state directory.
func New(options Options) *Store { return &Store{options} }

func (st *Store) lock(id string) func()       { return st.Locks.Lock("volume " + id) }
func (st *Store) dir(id string) string        { return filepath.Join(st.Home, "volumes", id) }
func (st *Store) recordPath(id string) string { return filepath.Join(st.dir(id), "volume.json") }
func (st *Store) data(v *Volume) string       { return filepath.Join(st.Pool.Path(v.files()), "data") }

// IDs returns the ids of all volumes, incomplete ones included.
func (st *Store) IDs() []string { return statedir.IDs(filepath.Join(st.Home, "volumes")) }

// load returns nil for a volume that does not exist or is incomplete.
func (st *Store) load(id string) (*Volume, error) {
	data, err := os.ReadFile(st.recordPath(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var v Volume
	if err := json.Unmarshal(data, &v); err != nil || v.ID != id {
		return nil, hostproto.Errorf(hostproto.DataLoss, "volume.damaged", "the record of volume %s is damaged", id)
	}
	return &v, nil
}

// usable returns a volume whose files exist.
func (st *Store) usable(id string) (*Volume, error) {
	v, err := st.load(id)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, hostproto.Errorf(hostproto.NotFound, "volume.absent", "there is no volume %s", id)
	}
	there, err := st.Pool.Has(v.files())
	if err == nil && !there {
		err = hostproto.Errorf(hostproto.DataLoss, "volume.files", "the files of volume %s are lost", id)
	}
	return v, err
}

func (st *Store) save(v *Volume) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return safefs.WriteFileSynced(st.recordPath(v.ID), data, 0o600)
}

// Create makes an empty volume. A second call with the same id finds the volume of the first.
func (st *Store) Create(args hostproto.CreateVolume) (any, error) {
	defer st.lock(args.ID)()
	made, err := st.load(args.ID)
	if err != nil {
		return nil, err
	}
	if made != nil {
		if made.Owner != args.Owner || made.SizeBytes != args.SizeBytes {
			return nil, hostproto.Errorf(hostproto.AlreadyExists, "volume.exists", "volume %s exists already", args.ID)
		}
		return made.view(), nil
	}
	if err := st.Pool.CheckSpace(); err != nil {
		return nil, err
	}
	files, err := st.Pool.Entry(pool.Volumes, args.ID)
	if err != nil {
		return nil, err
	}
	v := &Volume{ID: args.ID, Owner: args.Owner, SizeBytes: args.SizeBytes, CreatedMs: time.Now().UnixMilli(), Volume: files.IsVolume}
	if err := st.drop(files); err != nil {
		return nil, err
	}
	if err := st.fill(v); err != nil {
		if undo := st.drop(files); undo != nil {
			st.Log.Printf("%s: undo: %v", args.ID, undo)
		}
		return nil, err
	}
	return v.view(), nil
}

// fill makes the directory of a volume, and its record.
func (st *Store) fill(v *Volume) error {
	if err := os.Mkdir(st.dir(v.ID), 0o700); err != nil {
		return err
	}
	if err := st.Pool.Create(v.files(), v.SizeBytes); err != nil {
		return err
	}
	data := st.data(v)
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	if err := os.Lchown(data, st.Stored.Base, st.Stored.Base); err != nil {
		return err
	}
	v.Limit = cgroup.NotAsked
	if v.SizeBytes > 0 {
		v.Limit = cgroup.Enforced
		if enforced, reason := st.Pool.Limits(); !enforced || !v.Volume {
			v.Limit = cgroup.None("%s", reason)
		}
	}
	if err := st.Pool.SyncEntry(v.files()); err != nil {
		return err
	}
	return st.save(v)
}

func (v *Volume) view() any { return map[string]any{"limit": v.Limit} }

// List returns a page of the volumes whose ids sort after the given one.
func (st *Store) List(after string) any {
	found, next := []any{}, ""
	for _, id := range st.IDs() {
		if id <= after {
			continue
		}
		v, err := st.load(id)
		if err != nil || v == nil {
			continue
		}
		if len(found) == hostproto.PageLength {
			break
		}
		if found = append(found, map[string]any{"id": v.ID, "owner": v.Owner}); len(found) == hostproto.PageLength {
			next = v.ID
		}
	}
	return map[string]any{"volumes": found, "next": next}
}

// Stats returns how much is in a volume.
func (st *Store) Stats(id string) (any, error) {
	v, err := st.usable(id)
	if err != nil {
		return nil, err
	}
	used, counted := st.Pool.Usage(v.files())
	if !counted {
		used = safefs.Usage(st.data(v), maxEntries)
	}
	return map[string]any{"usedBytes": used}, nil
}

// Open returns the directory of a volume, and whether no sandbox has mounted it yet. The caller has recorded
// that a sandbox uses it, so it is not removed.
func (st *Store) Open(id, owner string) (data string, isNew bool, err error) {
	defer st.lock(id)()
	v, err := st.usable(id)
	if err != nil {
		return "", false, err
	}
	if v.Owner != owner {
		return "", false, hostproto.Errorf(hostproto.NotFound, "volume.absent", "there is no volume %s", id)
	}
	return st.data(v), !v.IsUsed, nil
}

// SetUsed records that a sandbox has mounted a volume.
func (st *Store) SetUsed(id string) error {
	defer st.lock(id)()
	v, err := st.usable(id)
	if err != nil || v.IsUsed {
		return err
	}
	v.IsUsed = true
	return st.save(v)
}

// Remove removes a volume and what is in it. It refuses while a sandbox in any state has it, and succeeds if
// there is none.
//
// INVARIANT: a sandbox records its mounts before it opens a volume, which needs the lock. So either the
// record is seen here, or the volume is gone when the sandbox opens it.
func (st *Store) Remove(id string, users Users) (any, error) {
	defer st.lock(id)()
	v, err := st.load(id)
	if err != nil {
		st.Log.Printf("%s: %v", id, err)
	}
	files := st.Pool.Locate(pool.Volumes, id)
	if v != nil {
		files = v.files()
		if _, err := st.Pool.Open(); err != nil && v.Volume {
			// The record stays as long as the files cannot be removed.
			return nil, err
		}
	}
	if user := users.UserOfVolume(id); user != "" {
		return nil, hostproto.Errorf(hostproto.Conflict, "volume.used", "sandbox %s uses volume %s", user, id).
			WithHint("destroy the sandbox first: agentpod destroy " + user)
	}
	return map[string]any{}, st.drop(files)
}

// drop removes a volume. The record goes first, so that a part of the files is never mistaken for all of
// them.
func (st *Store) drop(files pool.Entry) error {
	if err := os.Remove(st.recordPath(files.ID)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := st.Pool.Remove(files); err != nil {
		return err
	}
	return safefs.RemoveTree(filepath.Join(st.Home, "volumes"), files.ID)
}

// Recover removes incomplete volumes, and entries of the pool that have no record. It keeps the record of a
// volume whose files are lost or cannot be reached.
func (st *Store) Recover() {
	for _, id := range st.IDs() {
		v, err := st.load(id)
		if err == nil && v == nil {
			err = st.drop(st.Pool.Locate(pool.Volumes, id))
		}
		if err != nil {
			st.Log.Printf("%s: recover: %v", id, err)
		}
	}
	for _, id := range st.Pool.IDs(pool.Volumes) {
		if _, err := os.Lstat(st.dir(id)); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := st.Pool.Remove(pool.Entry{Area: pool.Volumes, ID: id, IsVolume: true}); err != nil {
			st.Log.Printf("pool: volume %s without a record: %v", id, err)
		}
	}
}
