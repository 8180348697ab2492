package host

import (
	"path/filepath"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/sigstop"
)

// isAlive reports whether the sandbox's first process is watched.
func (h *Host) isAlive(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[id] != nil
}

// existing returns the handle of a sandbox that exists, be its process alive or not.
func (h *Host) existing(id string) (*Handle, error) {
	handle, err := h.load(id)
	if err != nil {
		return nil, err
	}
	if !handle.exists() {
		return nil, hostproto.Errorf(hostproto.NotFound, "sandbox.absent", "there is no sandbox %s", id)
	}
	return handle, nil
}

// wrongState is a request that a sandbox's state does not allow.
func (h *Host) wrongState(handle *Handle, wish string) error {
	state := handle.State
	if (state == stateRunning || state == statePaused) && !h.isAlive(handle.ID) {
		state = "exited"
	}
	return hostproto.Errorf(hostproto.Conflict, "sandbox.state", "sandbox %s cannot be %s: it is %s", handle.ID, wish, state)
}

// freezer says how sandboxes are held still here.
func (h *Host) freezer() string {
	if h.cgroups.Freezes() {
		return "cgroup"
	}
	return "signals"
}

// stoppedFile exists while a sandbox is held still by signals.
const stoppedFile = "stopped.json"

// freeze returns when no process of a living sandbox runs any more; after an error all of them do.
func (h *Host) freeze(handle *Handle) error {
	if h.cgroups.Freezes() {
		return h.cgroups.Freeze(handle.group())
	}
	return sigstop.Stop(handle.Pid, filepath.Join(h.dir(handle.ID), stoppedFile))
}

// thaw lets a living sandbox run again; it may be called at any time.
func (h *Host) thaw(handle *Handle) error {
	if h.cgroups.Freezes() {
		return h.cgroups.Thaw(handle.group())
	}
	return sigstop.Continue(handle.Pid, filepath.Join(h.dir(handle.ID), stoppedFile))
}

// pause freezes every process of a sandbox; a frozen one stays as it is.
func (h *Host) pause(id string) (any, error) {
	handle, err := h.existing(id)
	if err != nil {
		return nil, err
	}
	if (handle.State != stateRunning && handle.State != statePaused) || !h.isAlive(id) {
		return nil, h.wrongState(handle, "paused")
	}
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: pause: %s", id, clock) }()
	handle.State = statePaused
	if err := h.save(handle); err != nil {
		return nil, err
	}
	h.setPaused(handle)
	if err := h.freeze(handle); err != nil {
		handle.State = stateRunning
		h.setPaused(handle)
		if undo := h.save(handle); undo != nil {
			h.log.Printf("%s: %v", id, undo)
		}
		return nil, err
	}
	clock.lap("freeze")
	return map[string]any{}, nil
}

// resume lets a sandbox run again, with a new deadline; one that runs gets the deadline.
func (h *Host) resume(args hostproto.SetDeadline) (any, error) {
	handle, err := h.existing(args.ID)
	if err != nil {
		return nil, err
	}
	if (handle.State != stateRunning && handle.State != statePaused) || !h.isAlive(args.ID) {
		return nil, h.wrongState(handle, "resumed")
	}
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: resume: %s", args.ID, clock) }()
	handle.State, handle.DeadlineMs = stateRunning, args.DeadlineMs
	if err := h.save(handle); err != nil {
		return nil, err
	}
	h.setPaused(handle)
	if err := h.thaw(handle); err != nil {
		return nil, err
	}
	clock.lap("thaw")
	return map[string]any{}, nil
}

// setPaused tells the watcher what the handle says.
func (h *Host) setPaused(handle *Handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.live[handle.ID]; l != nil {
		l.paused, l.deadlineMs = handle.State == statePaused, handle.DeadlineMs
	}
}
