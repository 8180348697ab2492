package lifecycle

import (
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"
)

// Found is what Recover found of the sandboxes of an earlier podhost.
type Found struct {
	// Bases are the base trees that sandboxes use. Groups are the names of their runs. Saved are the ids of
	// those that are paused to disk.
	Bases, Groups, Saved map[string]bool
}

// Recover brings the sandboxes of an earlier podhost into a known state. It watches running sandboxes again,
// undoes or finishes interrupted starts, stops and removals, and removes control groups that belong to no
// sandbox.
func (s *Sandboxes) Recover() (Found, error) {
	found := Found{Bases: map[string]bool{}, Groups: map[string]bool{}, Saved: map[string]bool{}}
	var interrupted []*Handle
	for _, id := range s.IDsOnDisk() {
		handle, err := s.load(id)
		if err != nil {
			s.Log.Printf("%s: %v", id, err)
			found.Groups[id] = true
			continue
		}
		if handle == nil {
			handle = &Handle{ID: id, State: stateCreating, Volume: s.Pool.Locate(pool.Sandboxes, id).IsVolume}
		}
		s.IDs.Keep(handle.UIDBase)
		if isInterrupted, err := s.recoverOne(handle); err != nil {
			return found, err
		} else if isInterrupted {
			interrupted = append(interrupted, handle)
		}
		found.Bases[handle.Base], found.Groups[handle.group()] = true, true
		found.Saved[id] = handle.Saved != nil
	}
	s.finishInterrupted(interrupted, s.unusedGroups(found.Groups))
	return found, nil
}

// recoverOne makes the state in the handle true. For a state that takes a while it only reports that it was
// interrupted. It returns only errors that podhost cannot continue with; it logs those of one sandbox.
func (s *Sandboxes) recoverOne(handle *Handle) (isInterrupted bool, err error) {
	switch handle.State {
	case stateRunning, statePaused:
		l, err := s.adopt(handle)
		if err != nil {
			return false, err
		}
		// The earlier podhost may have been about to remove it.
		if err := s.removeMemory(handle); err != nil {
			s.Log.Printf("%s: recover: %v", handle.ID, err)
		}
		if l != nil && handle.Runtime == boot.GVisor {
			// Earlier versions froze its processes on the host. Its supervisor would not answer then.
			s.thawGroup(handle)
		}
		switch {
		case l == nil:
			s.recordUnseenExit(handle)
		case handle.State == statePaused:
			err = s.freeze(handle)
		default:
			// The earlier podhost may have frozen it for a snapshot.
			err = s.thaw(handle)
		}
		if err != nil {
			s.Log.Printf("%s: recover: %v", handle.ID, err)
		}
	case stateSaving:
		l, err := s.adopt(handle)
		if err != nil {
			return false, err
		}
		if l != nil {
			s.undoSave(handle)
			break
		}
		// The machine was rebooted, or the sandbox ended. Its files are those of a running sandbox.
		handle.State = stateRunning
		if err := s.save(handle); err != nil {
			s.Log.Printf("%s: recover: %v", handle.ID, err)
		}
		s.recordUnseenExit(handle)
	case stateSaved:
		if handle.Shell == "" {
			break
		}
		_, err := s.adopt(handle)
		return true, err
	case stateStopped:
	default:
		return true, nil
	}
	if s.hasLostFiles(handle) {
		s.Log.Printf("%s: its files are lost", handle.ID)
	}
	return false, nil
}

// recordUnseenExit writes how a sandbox ended while no podhost ran.
func (s *Sandboxes) recordUnseenExit(handle *Handle) {
	if _, there := s.loadExit(handle.ID); there {
		return
	}
	now := time.Now().UnixMilli()
	exit := Exit{AtMs: now, OOMKilled: s.Launcher.Cgroups.Usage(handle.group()).OOMKills > 0}
	exit.Expired = !exit.OOMKilled && handle.DeadlineMs > 0 && handle.DeadlineMs <= now
	if err := s.saveExit(handle.ID, exit); err != nil {
		s.Log.Printf("%s: exit.json: %v", handle.ID, err)
	}
}

// SweepSockets removes sockets that belong to no sandbox. groups lists the ones in use.
func (s *Sandboxes) SweepSockets(groups map[string]bool) {
	dir := filepath.Join(s.Home, "run/s")
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); !groups[name[:len(name)-len(filepath.Ext(name))]] {
			safefs.RemoveTree(dir, entry.Name())
		}
	}
}
