package lifecycle

import (
	"path/filepath"

	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/sigstop"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/vm/supervise"
)

// Freezer says how sandboxes are frozen on this machine.
func (s *Sandboxes) Freezer() string {
	if s.Launcher.Cgroups.Freezes() {
		return "cgroup"
	}
	return "signals"
}

// stoppedFile exists while a sandbox is frozen by signals.
const stoppedFile = "stopped.json"

// writeOut lets a running machine write everything to its disk, and nothing afterwards until thaw: it keeps
// what programs have written in its own memory first. A machine that does not answer stays as it is.
func (s *Sandboxes) writeOut(handle *Handle) {
	if handle.Runtime != boot.Machine {
		return
	}
	if err := supervise.Freeze(s.runOf(handle).Control); err != nil {
		s.Log.Printf("%s: write to the disk: %v", handle.ID, err)
	}
}

// freeze returns when no process of a running sandbox runs any more. After an error all of them run.
func (s *Sandboxes) freeze(handle *Handle) error {
	if handle.Runtime == boot.GVisor {
		return gvisor.Pause(s.runOf(handle).Control)
	}
	return s.freezeGroup(handle)
}

// freezeGroup freezes the processes of a sandbox on the host.
func (s *Sandboxes) freezeGroup(handle *Handle) error {
	if s.Launcher.Cgroups.Freezes() {
		return s.Launcher.Cgroups.Freeze(handle.group())
	}
	return sigstop.Stop(handle.Pid, filepath.Join(s.dir(handle.ID), stoppedFile))
}

// thaw lets the processes of a sandbox run again. It may be called at any time.
func (s *Sandboxes) thaw(handle *Handle) error {
	if handle.Runtime == boot.GVisor {
		return gvisor.Resume(s.runOf(handle).Control)
	}
	if err := s.thawGroup(handle); err != nil || handle.Runtime != boot.Machine {
		return err
	}
	return supervise.Thaw(s.runOf(handle).Control)
}

func (s *Sandboxes) thawGroup(handle *Handle) error {
	if s.Launcher.Cgroups.Freezes() {
		return s.Launcher.Cgroups.Thaw(handle.group())
	}
	return sigstop.Continue(handle.Pid, filepath.Join(s.dir(handle.ID), stoppedFile))
}

// Pause freezes every process of a sandbox. It succeeds if the sandbox is paused already.
func (s *Sandboxes) Pause(id string) (any, error) {
	handle, err := s.existing(id)
	if err != nil {
		return nil, err
	}
	if handle.State == stateSaved {
		return map[string]any{}, nil
	}
	if (handle.State != stateRunning && handle.State != statePaused) || !s.isAlive(id) {
		return nil, s.wrongState(handle, "paused")
	}
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: pause: %s", id, clock) }()
	isPaused := handle.State == statePaused
	handle.State = statePaused
	if err := s.save(handle); err != nil {
		return nil, err
	}
	s.setPaused(handle)
	if !isPaused {
		// The supervisor of a paused machine does not answer.
		s.writeOut(handle)
	}
	if err := s.freeze(handle); err != nil {
		handle.State = stateRunning
		s.setPaused(handle)
		if undo := s.save(handle); undo != nil {
			s.Log.Printf("%s: %v", id, undo)
		}
		return nil, err
	}
	clock.Lap("freeze")
	return map[string]any{}, nil
}

// Resume lets a paused sandbox run again, with a new deadline. If the sandbox runs already, it gets the
// deadline.
func (s *Sandboxes) Resume(args hostproto.SetDeadline) (any, error) {
	handle, err := s.existing(args.ID)
	if err != nil {
		return nil, err
	}
	if (handle.State != stateRunning && handle.State != statePaused) || !s.isAlive(args.ID) {
		return nil, s.wrongState(handle, "resumed")
	}
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: resume: %s", args.ID, clock) }()
	handle.State, handle.DeadlineMs = stateRunning, args.DeadlineMs
	if err := s.save(handle); err != nil {
		return nil, err
	}
	s.setPaused(handle)
	if err := s.thaw(handle); err != nil {
		return nil, err
	}
	clock.Lap("thaw")
	return map[string]any{}, nil
}

// setPaused passes the handle's state and deadline to the watcher.
func (s *Sandboxes) setPaused(handle *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live[handle.ID]; l != nil {
		l.paused, l.deadlineMs = handle.State == statePaused || handle.State == stateSaving || handle.State == stateSaved, handle.DeadlineMs
	}
}
