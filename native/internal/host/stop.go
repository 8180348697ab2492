package host

import (
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/safefs"
)

// stop ends what lives of a sandbox and keeps its files.
func (h *Host) stop(id string) (any, error) {
	if err := h.stopNow(id, false); err != nil {
		return nil, err
	}
	return map[string]any{}, nil
}

func (h *Host) stopNow(id string, expired bool) error {
	handle, err := h.existingOrRebuilt(id)
	if err != nil || handle.State == stateStopped {
		return err
	}
	handle.Expired = expired
	return h.bringToStop(handle, "stop")
}

// bringToStop leads from any state in which a sandbox exists to "stopped". After a failure it is "stopping", and can be stopped again.
func (h *Host) bringToStop(handle *Handle, what string) error {
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: %s: %s", handle.ID, what, clock) }()
	// killAll has to know of a freeze, whatever the handle says from here on.
	frozen := handle.State == statePaused
	handle.State = stateStopping
	if err := h.save(handle); err != nil {
		return err
	}
	if frozen && !h.isAlive(handle.ID) {
		h.cgroups.Thaw(handle.group())
	}
	if err := h.end(handle, clock); err != nil {
		return err
	}
	if err := h.clearRun(handle.ID); err != nil {
		return err
	}
	if err := h.pool.SyncEntry(handle.files()); err != nil {
		return err
	}
	clock.lap("sync")
	handle.State, handle.Shell, handle.Pid, handle.StartTime, handle.Network = stateStopped, "", 0, 0, netns.Level{}
	return h.saveSynced(handle)
}

// clearRun removes what belongs to one run of a sandbox and not to its files.
func (h *Host) clearRun(id string) error {
	for _, name := range []string{"bundle", "pid", "exit.json", "podd.log", stoppedFile} {
		if err := safefs.RemoveTree(h.dir(id), name); err != nil {
			return err
		}
	}
	return nil
}

// startAgain runs a stopped sandbox on its files. On failure it is stopped as before.
func (h *Host) startAgain(args hostproto.CreateSandbox) (any, error) {
	handle, err := h.existingOrRebuilt(args.ID)
	if err != nil {
		return nil, err
	}
	if handle.Unknown {
		handle.Owner, handle.Root = args.Owner, args.Root
	}
	if handle.Owner != args.Owner || !handle.Root.Equal(args.Root) {
		return nil, hostproto.Errorf(hostproto.InvalidArgument, "sandbox.differs", "sandbox %s has another owner or root", args.ID)
	}
	if handle.State == stateRunning && h.isAlive(args.ID) {
		return h.createdView(handle), nil
	}
	if handle.State == statePaused && h.isAlive(args.ID) {
		return nil, h.wrongState(handle, "started")
	}
	if err := h.canStart(); err != nil {
		return nil, err
	}
	if handle.State != stateStopped {
		if err := h.bringToStop(handle, "stop"); err != nil {
			return nil, err
		}
	}
	there, err := h.pool.Has(handle.files())
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, hostproto.Errorf(hostproto.DataLoss, "sandbox.files", "the files of sandbox %s are gone", args.ID)
	}
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: start: %s", args.ID, clock) }()
	handle.State, handle.Expired, handle.Unknown = stateStarting, false, false
	handle.DeadlineMs, handle.WhenOver = args.DeadlineMs, args.WhenOver
	handle.DiskBytes = args.Resources.DiskBytes
	h.forgetHeld(handle)
	if err := h.save(handle); err != nil {
		return nil, err
	}
	if err := h.limitDisk(handle); err != nil {
		h.log.Printf("%s: %v", args.ID, err)
		handle.noDiskLimit = err.Error()
	}
	if err := h.start(handle, args, rootfs.OwnFiles, clock); err != nil {
		if undo := h.bringToStop(handle, "undo"); undo != nil {
			h.log.Printf("%s: undo: %v", args.ID, undo)
		}
		return nil, err
	}
	return h.createdView(handle), nil
}

// hasLostFiles reports a sandbox whose files are certainly gone: the pool is open, and does not have them.
func (h *Host) hasLostFiles(handle *Handle) bool {
	if h.isAlive(handle.ID) {
		return false
	}
	there, err := h.pool.Has(handle.files())
	return err == nil && !there
}
