package lifecycle

import (
	"agentpod/native/internal/host/snapshots"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

// snapshotSource is a sandbox of which a snapshot is taken.
type snapshotSource struct {
	sandboxes *Sandboxes
	handle    *Handle
}

// SnapshotSource returns an existing sandbox as the source of a snapshot.
func (s *Sandboxes) SnapshotSource(id string) (snapshots.Source, error) {
	handle, err := s.existing(id)
	if err != nil {
		return nil, err
	}
	return snapshotSource{s, handle}, nil
}

func (source snapshotSource) Files() pool.Entry    { return source.handle.files() }
func (source snapshotSource) Root() hostproto.Root { return source.handle.Root }
func (source snapshotSource) Runtime() string      { return string(source.handle.Runtime) }
func (source snapshotSource) OwnBytes() int64      { return source.sandboxes.ownBytes(source.handle) }

func (source snapshotSource) Freeze() (thaw func() error, err error) {
	s, handle := source.sandboxes, source.handle
	if handle.State == statePaused || !s.isAlive(handle.ID) {
		return nil, nil
	}
	if err := s.freeze(handle); err != nil {
		s.thaw(handle)
		return nil, err
	}
	return func() error { return s.thaw(handle) }, nil
}

func (source snapshotSource) RaiseDiskLimit(snapshot string) {
	source.sandboxes.raiseDiskLimit(source.handle, snapshot)
}
