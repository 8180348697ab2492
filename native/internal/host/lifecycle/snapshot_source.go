package lifecycle

import (
	"errors"
	"strings"

	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/shells"
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
	s.writeOut(handle)
	if err := s.freeze(handle); err != nil {
		s.thaw(handle)
		return nil, err
	}
	return func() error { return s.thaw(handle) }, nil
}

// Hold stops a running sandbox of gVisor, or a virtual machine. Nothing else can save memory.
func (source snapshotSource) Hold() (snapshots.Held, error) {
	s, handle := source.sandboxes, source.handle
	if handle.State != stateRunning || !s.isAlive(handle.ID) {
		return nil, s.wrongState(handle, "saved with its memory")
	}
	return s.holdStill(handle)
}

// held is a sandbox that stands still.
type held interface {
	snapshots.Held
	// SaveHeld is Save, but the sandbox stands still until it is released. name is that of what is elsewhere.
	SaveHeld(name, dir string) (bytes int64, err error)
}

// holdStill stops every program of a sandbox that runs, so that its memory can be saved.
func (s *Sandboxes) holdStill(handle *Handle) (held, error) {
	switch {
	case handle.Runtime == boot.Machine:
		return s.holdMachine(handle)
	case handle.Runtime != boot.GVisor:
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.memory", "sandbox %s runs on the host's kernel, which cannot save its memory", handle.ID).
			WithHint("create it with `--isolation gvisor` or `--isolation vm`, or leave out `--memory`")
	case handle.Docker:
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.docker", "sandbox %s may run a Docker engine, whose networks gVisor cannot restore", handle.ID).
			WithHint("leave out `--memory` or `--to-disk`: its files have the engine's images and volumes")
	case len(handle.Mounts) > 0:
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.mounts", "sandbox %s mounts other directories, which are no part of a snapshot: its programs could not continue", handle.ID).
			WithHint("leave out `--memory`")
	}
	release, err := s.memoryRelease(handle)
	if err != nil {
		return nil, err
	}
	hold, err := gvisor.HoldStill(s.runOf(handle).Control)
	if err != nil {
		return nil, memoryError(handle.ID, err)
	}
	return heldGVisor{hold, s.MemoryShells, handle.ID, release}, nil
}

// memoryRelease names the program that writes the memory of a sandbox, with its release.
func (s *Sandboxes) memoryRelease(handle *Handle) (string, error) {
	if handle.Runtime == boot.Machine {
		if handle.Machine == nil {
			return "", hostproto.Errorf(hostproto.FailedPrecondition, "snapshot.unsavable", "sandbox %s has no record of its machine", handle.ID)
		}
		return s.Machines.Release(handle.Machine.Accel)
	}
	release, err := s.Launcher.Runsc.Release()
	return "gVisor " + release, err
}

type heldGVisor struct {
	*gvisor.Hold
	shells      *shells.Pool
	id, release string
}

// Release also prepares for what usually follows: that the memory is restored.
func (h heldGVisor) Release() {
	h.Hold.Release()
	h.shells.Expect()
}

func (h heldGVisor) Version() string { return h.release }

func (h heldGVisor) Save(_, dir string) (int64, error) { return 0, h.failure(h.Hold.Save(dir)) }

func (h heldGVisor) SaveHeld(_, dir string) (int64, error) { return 0, h.failure(h.Hold.SaveHeld(dir)) }

func (h heldGVisor) failure(err error) error {
	if err == nil {
		return nil
	}
	return memoryError(h.id, err)
}

// memoryError is the error for a sandbox whose memory cannot be saved. It continues as before.
func memoryError(id string, err error) error {
	if errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "no space left on device") {
		return hostproto.Errorf(hostproto.ResourceExhausted, "disk.full", "the memory of sandbox %s does not fit on the disk: %s", id, gvisor.CauseOf(err)).
			WithHint("free space on the disk that holds the state directory")
	}
	return hostproto.Errorf(hostproto.FailedPrecondition, "snapshot.unsavable", "the memory of sandbox %s cannot be saved: %s", id, gvisor.CauseOf(err)).
		WithHint("the sandbox continues as before; end that program and try again, or keep the files only: `agentpod snapshot create` without `--memory`, or `agentpod stop`")
}

func (source snapshotSource) RaiseDiskLimit(snapshot string) {
	source.sandboxes.raiseDiskLimit(source.handle, snapshot)
}
