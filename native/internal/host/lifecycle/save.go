package lifecycle

import (
	"errors"
	"os"
	"path/filepath"

	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/memoryimage"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/vm/supervise"
)

// memoryDir has the memory of a sandbox that is paused to disk, beside its handle.
const memoryDir = "memory"

// Save pauses a sandbox to disk: it writes the memory of its processes out and ends them. If it fails, they
// continue, or stay paused. It succeeds if the sandbox is saved already.
func (s *Sandboxes) Save(id string) (any, error) {
	handle, err := s.existing(id)
	if err != nil {
		return nil, err
	}
	if handle.State == stateSaved {
		return savedView(handle), s.endSaved(handle)
	}
	if (handle.State != stateRunning && handle.State != statePaused) || !s.isAlive(id) {
		return nil, s.wrongState(handle, "paused to disk")
	}
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: save: %s", id, clock) }()
	handle.WasPaused = handle.State == statePaused
	handle.State = stateSaving
	if err := s.save(handle); err != nil {
		return nil, err
	}
	// No deadline applies meanwhile.
	s.setPaused(handle)
	if err := s.writeMemory(handle, clock); err != nil {
		s.undoSave(handle)
		return nil, err
	}
	if err := s.endSaved(handle); err != nil {
		return nil, err
	}
	clock.Lap("end")
	return savedView(handle), nil
}

func savedView(handle *Handle) any { return map[string]any{"savedBytes": handle.Saved.Bytes} }

// writeMemory returns when files and memory of one moment are on the disk, the handle says so, and nothing of
// the sandbox runs any more.
//
// INVARIANT: nothing of the sandbox runs after the moment that was saved. It stands still while it is saved,
// and is frozen before the handle is written. The supervisor, which would let it run again when podhost is
// killed, is frozen with it.
func (s *Sandboxes) writeMemory(handle *Handle, clock *stopwatch.Stopwatch) error {
	if err := s.Pool.SyncEntry(handle.files()); err != nil {
		return err
	}
	clock.Lap("sync")
	if handle.WasPaused {
		if err := s.thaw(handle); err != nil {
			return err
		}
	}
	hold, err := s.holdStill(handle)
	if err != nil {
		return err
	}
	defer hold.Release()
	clock.Lap("hold")
	dir, err := s.newMemoryDir(handle)
	if err != nil {
		return err
	}
	elsewhere, err := hold.SaveHeld(handle.ID, dir)
	if err != nil {
		return err
	}
	clock.Lap("memory")
	image, err := memoryimage.Seal(dir, hold.Version())
	if err != nil {
		return memoryError(handle.ID, err)
	}
	image.Bytes += elsewhere
	if err := s.Pool.SyncEntry(handle.files()); err != nil {
		return err
	}
	clock.Lap("sync memory")
	if err := s.freezeGroup(handle); err != nil {
		return err
	}
	handle.State, handle.Saved = stateSaved, image
	if err := s.saveSynced(handle); err != nil {
		handle.State, handle.Saved = stateSaving, nil
		return err
	}
	return nil
}

func (s *Sandboxes) newMemoryDir(handle *Handle) (string, error) {
	if err := s.removeMemory(handle); err != nil {
		return "", err
	}
	return s.memoryDir(handle), os.Mkdir(s.memoryDir(handle), 0o700)
}

func (s *Sandboxes) memoryDir(handle *Handle) string {
	return filepath.Join(s.dir(handle.ID), memoryDir)
}

// removeMemory removes what was saved of a sandbox. It succeeds if nothing was.
func (s *Sandboxes) removeMemory(handle *Handle) error {
	if handle.Runtime == boot.Machine {
		if err := s.Machines.Remove(handle.ID); err != nil {
			return err
		}
	}
	return safefs.RemoveTree(s.dir(handle.ID), memoryDir)
}

// undoSave lets a sandbox continue that could not be saved, or leaves it paused. This podhost does not hold
// it any more.
func (s *Sandboxes) undoSave(handle *Handle) {
	err := s.thawGroup(handle)
	handle.State = stateRunning
	if err == nil && handle.WasPaused {
		if err = s.awaitReleased(handle); err == nil {
			s.writeOut(handle)
			err = s.freeze(handle)
		}
		handle.State = statePaused
	}
	if err != nil {
		s.Log.Printf("%s: undo: %v", handle.ID, err)
	}
	handle.WasPaused = false
	s.setPaused(handle)
	for _, err := range []error{s.save(handle), s.removeMemory(handle)} {
		if err != nil {
			s.Log.Printf("%s: undo: %v", handle.ID, err)
		}
	}
}

// awaitReleased returns when a sandbox that was held runs again.
func (s *Sandboxes) awaitReleased(handle *Handle) error {
	control := s.runOf(handle).Control
	if handle.Runtime == boot.Machine {
		return supervise.Thaw(control)
	}
	return gvisor.AwaitReleased(control)
}

// endSaved ends the processes of a saved sandbox. It may be called again.
func (s *Sandboxes) endSaved(handle *Handle) error {
	if handle.Shell == "" {
		return nil
	}
	s.setPaused(handle)
	if err := s.end(handle, stopwatch.New()); err != nil {
		return err
	}
	if err := s.clearRun(handle); err != nil {
		return err
	}
	handle.forgetRun()
	return s.save(handle)
}

// forgetRun records that the sandbox has no processes.
func (handle *Handle) forgetRun() {
	handle.Shell, handle.Pid, handle.StartTime, handle.Network, handle.run = "", 0, 0, netns.Level{}, nil
}

// savedFailure explains why a saved sandbox cannot continue.
func savedFailure(id string, err error) error {
	var failure *hostproto.Error
	if !errors.As(err, &failure) {
		return err
	}
	if failure.Reason != "memory.damaged" && failure.Reason != "memory.release" && failure.Reason != "memory.cpu" {
		return err
	}
	return failure.WithHint("`agentpod stop " + id + "` gives up its processes and keeps its files; nothing was removed")
}
