package snapshots

import (
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

// RootUsers can tell which sandbox has a root.
type RootUsers interface {
	// UserOfRoot returns the name of a sandbox (in any state) whose root satisfies the predicate, or "".
	UserOfRoot(isUsed func(hostproto.Root) bool) string
}

// Hold keeps the snapshots of a root from being removed until release is called. It fails if one of them does
// not exist. Before release, the caller stores the root with what it makes from it.
func (st *Store) Hold(root hostproto.Root) (release func(), err error) {
	if len(root.Over) == 0 {
		return func() {}, nil
	}
	st.inUse.mu.Lock()
	defer st.inUse.mu.Unlock()
	for _, id := range root.Over {
		if _, err := st.usable(id); err != nil {
			return nil, err
		}
	}
	st.countRequests(root.Over, 1)
	return func() {
		st.inUse.mu.Lock()
		defer st.inUse.mu.Unlock()
		st.countRequests(root.Over, -1)
	}, nil
}

func (st *Store) countRequests(ids []string, by int) {
	for _, id := range ids {
		if st.inUse.requests[id] += by; st.inUse.requests[id] == 0 {
			delete(st.inUse.requests, id)
		}
	}
}

// Remove removes a snapshot. It refuses while a sandbox or another snapshot has it in its root.
func (st *Store) Remove(id string, sandboxes RootUsers) (any, error) {
	defer st.Locks.Lock("snapshot " + id)()
	s, err := st.Load(id)
	if err != nil {
		st.Log.Printf("%s: %v", id, err)
	}
	files := st.Pool.Locate(pool.Snapshots, id)
	if s != nil {
		files = s.Files()
		if _, err := st.Pool.Open(); err != nil && s.Volume {
			// The record stays as long as the files cannot be removed.
			return nil, err
		}
	}
	if err := st.removeUnused(id, sandboxes); err != nil {
		return nil, err
	}
	return map[string]any{}, st.drop(files)
}

// removeUnused removes the record, unless the snapshot is in use.
func (st *Store) removeUnused(id string, sandboxes RootUsers) error {
	st.inUse.mu.Lock()
	defer st.inUse.mu.Unlock()
	isUsed := func(root hostproto.Root) bool { return root.UsesSnapshot(id) }
	user := sandboxes.UserOfRoot(isUsed)
	if user == "" {
		user = st.UserOfRoot(isUsed)
	}
	if st.inUse.requests[id] > 0 {
		user = "a sandbox or snapshot that is being created"
	}
	if user != "" {
		return hostproto.Errorf(hostproto.Conflict, "snapshot.used", "%s uses snapshot %s", user, id).
			WithHint("first destroy the sandboxes and remove the snapshots that use it")
	}
	return st.removeRecord(id)
}

// UserOfRoot returns the name of a snapshot whose root satisfies the predicate, or "".
func (st *Store) UserOfRoot(isUsed func(hostproto.Root) bool) string {
	for _, id := range st.IDs() {
		if s, err := st.Load(id); err == nil && s != nil && isUsed(s.Root) {
			return "snapshot " + id
		}
	}
	return ""
}

// Uppers returns the directories of the snapshots of a root, which the caller holds.
func (st *Store) Uppers(root hostproto.Root) ([]string, error) {
	var dirs []string
	for _, id := range root.Over {
		s, err := st.existing(id)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, st.upper(s))
	}
	return dirs, nil
}

// Unordered returns which snapshots of a root may share inode numbers with another one of it, or with the
// files of a sandbox that is made from the snapshot `from` ("" for none). In the pool, that are those that
// were not made on top of exactly the ones below, and those that were added below the files of a copy.
func (st *Store) Unordered(root hostproto.Root, from string) ([]int, error) {
	own := len(root.Over)
	if from != "" {
		s, err := st.existing(from)
		if err != nil {
			return nil, err
		}
		own = len(s.Root.Over)
	}
	var unordered []int
	for i, id := range root.Over {
		s, err := st.existing(id)
		if err != nil {
			return nil, err
		}
		below := hostproto.Root{Kind: root.Kind, Layers: root.Layers, Over: root.Over[:i]}
		if s.Volume && (i >= own || !s.Root.Equal(below)) && (i > 0 || i >= own) {
			unordered = append(unordered, i)
		}
	}
	return unordered, nil
}

// NewEntry makes an empty entry of the pool for files on top of a root's snapshots, which the caller holds.
// Its inode numbers have to begin after all of theirs. If each snapshot was made on top of the ones below it,
// the topmost has the highest numbers; otherwise any may have them.
func (st *Store) NewEntry(files pool.Entry, root hostproto.Root, bytes int64) error {
	var last *Snapshot
	for _, id := range root.Over {
		s, err := st.existing(id)
		if err != nil {
			return err
		}
		if s.Volume && (last == nil || s.NextNumber >= last.NextNumber) {
			last = s
		}
	}
	if last != nil {
		return st.Pool.CreateAfter(files, last.Files(), bytes)
	}
	return st.Pool.Create(files, bytes)
}
