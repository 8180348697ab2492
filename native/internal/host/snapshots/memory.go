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
	if s.Memory.Release != release {
		return "", hostproto.Errorf(hostproto.FailedPrecondition, "snapshot.release",
			"the memory of snapshot %s was saved by gVisor %s, and this machine has %s", id, s.Memory.Release, release).
			WithHint("restore its files only, or install that release")
	}
	return st.MemoryDir(id), nil
}
