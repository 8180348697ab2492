package lifecycle

import (
	"errors"
	"strings"

	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/snapshots"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"

	"golang.org/x/sys/unix"
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

// Hold stops a running gVisor sandbox. Nothing else can save memory.
func (source snapshotSource) Hold() (snapshots.Held, error) {
	s, handle := source.sandboxes, source.handle
	switch {
	case handle.Runtime != boot.GVisor:
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.memory", "sandbox %s runs on the host's kernel, which cannot save its memory", handle.ID).
			WithHint("create it with `--isolation gvisor`, or leave out `--memory`")
	case handle.State != stateRunning || !s.isAlive(handle.ID):
		return nil, s.wrongState(handle, "saved with its memory")
	case len(handle.Mounts) > 0:
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.mounts", "sandbox %s mounts other directories, which are no part of a snapshot: its programs could not continue", handle.ID).
			WithHint("leave out `--memory`")
	}
	release, err := s.Launcher.Runsc.Release()
	if err != nil {
		return nil, err
	}
	hold, err := gvisor.HoldStill(s.runOf(handle).Control)
	if err != nil {
		return nil, memoryError(handle.ID, err)
	}
	return held{hold, handle.ID, release}, nil
}

type held struct {
	*gvisor.Hold
	id, release string
}

func (h held) Version() string { return h.release }

func (h held) Save(dir string) error {
	if err := h.Hold.Save(dir); err != nil {
		return memoryError(h.id, err)
	}
	return nil
}

// memoryError is the error for a sandbox whose memory cannot be saved. It continues as before.
func memoryError(id string, err error) error {
	if errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "no space left on device") {
		return hostproto.Errorf(hostproto.ResourceExhausted, "disk.full", "the memory of sandbox %s does not fit on the disk: %v", id, err).
			WithHint("free space on the disk that holds the state directory")
	}
	return hostproto.Errorf(hostproto.FailedPrecondition, "snapshot.unsavable", "the memory of sandbox %s cannot be saved: %v", id, err).
		WithHint("the sandbox continues; take a snapshot of its files, without `--memory`")
}

func (source snapshotSource) RaiseDiskLimit(snapshot string) {
	source.sandboxes.raiseDiskLimit(source.handle, snapshot)
}
