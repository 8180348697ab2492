package snapshots

import "agentpod/native/internal/hostproto"

// MemoryOf returns the directory with the memory of a snapshot, for a program of this release. The caller
// holds the snapshot.
func (st *Store) MemoryOf(id, release string) (string, error) {
	s, err := st.usable(id)
	if err != nil {
		return "", err
	}
	if s.Memory == nil {
		return "", hostproto.Errorf(hostproto.FailedPrecondition, "snapshot.memory", "snapshot %s has files only", id).
			WithHint("restore it without memory, or take another one with `--memory`")
	}
	if err := s.Memory.Check(st.MemoryDir(id), release, "the memory of snapshot "+id); err != nil {
		return "", hostproto.AsError(err).WithHint("its files can still be used: `agentpod restore --files " + id + "`")
	}
	return st.MemoryDir(id), nil
}
