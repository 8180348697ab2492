package lifecycle

import (
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/stopwatch"
)

// Stop ends the processes of a sandbox and keeps its files.
func (s *Sandboxes) Stop(id string) (any, error) {
	if err := s.stopNow(id, false); err != nil {
		return nil, err
	}
	return map[string]any{}, nil
}

func (s *Sandboxes) stopNow(id string, expired bool) error {
	handle, err := s.existingOrReconstructed(id)
	if err != nil || handle.State == stateStopped {
		return err
	}
	handle.Expired = expired
	return s.bringToStop(handle, "stop")
}

// bringToStop leads from any state of an existing sandbox to "stopped". After a failure the state is
// "stopping", and the sandbox can be stopped again.
func (s *Sandboxes) bringToStop(handle *Handle, what string) error {
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: %s: %s", handle.ID, what, clock) }()
	// The state is about to change, and a frozen group has to be thawed before its processes can end.
	isFrozen := handle.State == statePaused || handle.State == stateSaved
	handle.State, handle.Saved = stateStopping, nil
	if err := s.save(handle); err != nil {
		return err
	}
	if isFrozen && !s.isAlive(handle.ID) {
		s.Launcher.Cgroups.Thaw(handle.group())
	}
	if handle.Runtime == boot.Machine && s.isAlive(handle.ID) && !isFrozen {
		s.writeOut(handle)
		clock.Lap("write")
	}
	if err := s.end(handle, clock); err != nil {
		return err
	}
	if err := s.clearRun(handle); err != nil {
		return err
	}
	if err := s.Pool.SyncEntry(handle.files()); err != nil {
		return err
	}
	clock.Lap("sync")
	handle.State = stateStopped
	handle.forgetRun()
	return s.saveSynced(handle)
}

// clearRun removes the files of one run of a sandbox, and keeps the sandbox's own files.
func (s *Sandboxes) clearRun(handle *Handle) error {
	for _, name := range []string{"exit.json", stoppedFile} {
		if err := safefs.RemoveTree(s.dir(handle.ID), name); err != nil {
			return err
		}
	}
	if handle.Saved != nil {
		return nil
	}
	return s.removeMemory(handle)
}

// StartAgain starts a stopped sandbox on its files. If it fails, the sandbox is stopped as before.
func (s *Sandboxes) StartAgain(args hostproto.CreateSandbox) (any, error) {
	handle, err := s.existingOrReconstructed(args.ID)
	if err != nil {
		return nil, err
	}
	if handle.Unknown {
		handle.Owner, handle.Root, handle.Runtime = args.Owner, args.Root, boot.Runtime(args.Runtime)
	}
	if handle.Owner != args.Owner || !handle.Root.Equal(args.Root) || handle.Runtime != boot.Runtime(args.Runtime) {
		return nil, hostproto.Errorf(hostproto.InvalidArgument, "sandbox.differs", "sandbox %s has a different owner, root or runtime", args.ID)
	}
	if handle.State == stateRunning && s.isAlive(args.ID) {
		return s.createdView(handle), nil
	}
	if handle.State == stateSaved || handle.State == statePaused && s.isAlive(args.ID) {
		return nil, s.wrongState(handle, "started")
	}
	if err := s.Pool.CheckSpace(); err != nil {
		return nil, err
	}
	if handle.State != stateStopped {
		if err := s.bringToStop(handle, "stop"); err != nil {
			return nil, err
		}
	}
	there, err := s.Pool.Has(handle.files())
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, hostproto.Errorf(hostproto.DataLoss, "sandbox.files", "the files of sandbox %s are lost", args.ID)
	}
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: start: %s", args.ID, clock) }()
	handle.State, handle.Expired, handle.Unknown = stateStarting, false, false
	handle.DeadlineMs, handle.WhenOver = args.DeadlineMs, args.WhenOver
	handle.DiskBytes, handle.Mounts, handle.Docker = diskLimit(handle.Runtime, args), args.Mounts, args.Docker
	s.forgetRemovedSnapshots(handle)
	if err := s.save(handle); err != nil {
		return nil, err
	}
	if err := s.setDiskLimit(handle); err != nil {
		s.Log.Printf("%s: %v", args.ID, err)
		handle.noDiskLimit = err.Error()
	}
	if err := s.startOwn(handle, args, clock); err != nil {
		if undo := s.bringToStop(handle, "undo"); undo != nil {
			s.Log.Printf("%s: undo: %v", args.ID, undo)
		}
		return nil, err
	}
	return s.createdView(handle), nil
}

// diskLimit is the limit on the disk usage of a sandbox's entry in the pool. The size of a machine's disk is
// its limit already.
func diskLimit(runtime boot.Runtime, args hostproto.CreateSandbox) int64 {
	if runtime == boot.Machine {
		return 0
	}
	return args.Resources.DiskBytes
}

// startOwn starts a sandbox on its own files.
func (s *Sandboxes) startOwn(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	if handle.Runtime == boot.Machine {
		if err := refuseForMachine(s.Machines.Program.Kind, args); err != nil {
			return err
		}
		from, err := s.templateMachine(args)
		if err != nil {
			return err
		}
		return s.startMachine(handle, args, from, rootfs.OwnFiles, clock)
	}
	pool := s.shellsOf(handle.Runtime)
	defer pool.Starting()()
	return s.start(takeShell(pool, args.Docker, nil), handle, args, rootfs.OwnFiles, clock)
}

// hasLostFiles reports whether the files of a sandbox are certainly lost: the pool is open and does not have
// them.
func (s *Sandboxes) hasLostFiles(handle *Handle) bool {
	if s.isAlive(handle.ID) {
		return false
	}
	there, err := s.Pool.Has(handle.files())
	return err == nil && !there
}
