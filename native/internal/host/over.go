package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

// overUse counts, for each snapshot, the requests under way that are making something over it. What is made has written down what it stands
// on before it is no longer counted here.
type overUse struct {
	mu   sync.Mutex
	held map[string]int
}

// holdOver keeps the snapshots of a root from being removed until release is called, or says which of them is not there.
func (h *Host) holdOver(root hostproto.Root) (release func(), err error) {
	if len(root.Over) == 0 {
		return func() {}, nil
	}
	h.over.mu.Lock()
	defer h.over.mu.Unlock()
	for _, id := range root.Over {
		s, err := h.presentSnapshot(id)
		if err == nil {
			err = h.reachable(s)
		}
		if err != nil {
			return nil, err
		}
	}
	h.countOver(root.Over, 1)
	return func() {
		h.over.mu.Lock()
		defer h.over.mu.Unlock()
		h.countOver(root.Over, -1)
	}, nil
}

func (h *Host) countOver(ids []string, by int) {
	if h.over.held == nil {
		h.over.held = map[string]int{}
	}
	for _, id := range ids {
		if h.over.held[id] += by; h.over.held[id] == 0 {
			delete(h.over.held, id)
		}
	}
}

// unlist makes a snapshot one that is not there, unless something stands on it; its files are still to be removed.
func (h *Host) unlist(id string) error {
	h.over.mu.Lock()
	defer h.over.mu.Unlock()
	user := h.whoUses(func(root hostproto.Root) bool { return root.UsesSnapshot(id) })
	if h.over.held[id] > 0 {
		user = "something that is being made"
	}
	if user != "" {
		return hostproto.Errorf(hostproto.Conflict, "snapshot.used", "%s stands on snapshot %s", user, id).
			WithHint("destroy the sandboxes and remove the snapshots that stand on it first")
	}
	if err := os.Remove(filepath.Join(h.snapshotDir(id), "snapshot.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// whoUses names a sandbox, in whatever state, or a snapshot whose root is such a one; "" when there is none.
func (h *Host) whoUses(isSuch func(hostproto.Root) bool) string {
	for _, id := range h.sandboxIDs() {
		if handle, err := h.load(id); err == nil && handle != nil && isSuch(handle.Root) {
			return "sandbox " + id
		}
	}
	for _, id := range h.snapshotIDs() {
		if s, err := h.loadSnapshot(id); err == nil && s != nil && isSuch(s.Root) {
			return "snapshot " + id
		}
	}
	return ""
}

// presentSnapshot is loadSnapshot for one that has to be there.
func (h *Host) presentSnapshot(id string) (*Snapshot, error) {
	s, err := h.loadSnapshot(id)
	if err == nil && s == nil {
		err = snapshotAbsent(id)
	}
	return s, err
}

// overUppers are the directories of a root's snapshots that hold their uppers. The caller holds the snapshots.
func (h *Host) overUppers(root hostproto.Root) ([]string, error) {
	var dirs []string
	for _, id := range root.Over {
		s, err := h.presentSnapshot(id)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, filepath.Join(h.pool.Path(s.files()), "upper"))
	}
	return dirs, nil
}

// newEntry makes an empty place for files that will lie over a root's snapshots, which the caller holds. Where each of those was made over the ones
// below it, the topmost has the highest numbers; of others that were put together, any may. A place made after that one is made after all.
func (h *Host) newEntry(files pool.Entry, root hostproto.Root, bytes int64) error {
	var last *Snapshot
	for _, id := range root.Over {
		s, err := h.presentSnapshot(id)
		if err != nil {
			return err
		}
		if s.Volume && (last == nil || s.NextNumber >= last.NextNumber) {
			last = s
		}
	}
	if last != nil {
		return h.pool.CreateAfter(files, last.files(), bytes)
	}
	return h.pool.Create(files, bytes)
}
