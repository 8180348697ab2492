package lifecycle

import (
	"strings"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/random"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"
)

// createRestored gives a new sandbox the files and the running processes of a snapshot.
func (s *Sandboxes) createRestored(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	if args.Snapshot == "" || handle.Runtime != boot.GVisor || len(args.Mounts) > 0 {
		return hostproto.Errorf(hostproto.InvalidArgument, "snapshot.memory", "only a gVisor sandbox without mounts continues the processes of a snapshot")
	}
	release, err := s.memoryRelease(handle)
	if err != nil {
		return err
	}
	image, err := s.Snapshots.MemoryOf(args.Snapshot, release)
	if err != nil {
		return err
	}
	handle.DiskBytes = args.Resources.DiskBytes
	if handle.FromBytes, err = s.Snapshots.CopyTo(handle.files(), args); err != nil {
		return err
	}
	clock.Lap("volume")
	return s.continueProcesses(handle, args, rootfs.CopiedFiles, boot.Restore{Image: image}, clock)
}

// continueProcesses starts a sandbox on its files, with saved memory. If it fails, nothing of it runs.
func (s *Sandboxes) continueProcesses(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, restore boot.Restore, clock *stopwatch.Stopwatch) error {
	defer s.MemoryShells.Starting()()
	run := boot.NewRun(s.Home, "sh"+random.Hex(7), handle.Runtime)
	if shell := s.MemoryShells.Take(nil); shell != nil {
		run = shell.Run
	}
	handle.Shell = run.Name
	defer s.Launcher.Stage.ReleaseRoot(handle.ID)
	restore.Hostname = args.Hostname
	restore.Mount = func(run *boot.Run) (string, error) { return s.prepareRestored(run, handle, args, files) }
	if err := s.Launcher.StartRestored(run, restore); err != nil {
		if undo := s.Launcher.End(run, stopwatch.New()); undo != nil {
			s.Log.Printf("%s: undo: %v", handle.ID, undo)
		}
		return restoreError(handle.ID, err)
	}
	clock.Lap("restore")
	handle.setRun(run)
	return s.watchStarted(handle)
}

// prepareRestored sets the limits of a run that does not run yet, and mounts its root.
func (s *Sandboxes) prepareRestored(run *boot.Run, handle *Handle, args hostproto.CreateSandbox, files rootfs.Files) (string, error) {
	s.setLimits(handle, s.Launcher.Cgroups.Limit(run.Name, limitsOf(handle.Runtime, args.Resources)), args.Resources)
	user, err := run.UserNamespace()
	if err != nil {
		return "", err
	}
	defer user.Close()
	root, err := s.mountRoot(handle, args, files, s.rootIDs(run.IDs, user))
	return root.Path, err
}

// RestoreSaved continues the processes of a sandbox that is paused to disk. If it fails, the sandbox is saved
// as before. It succeeds if the sandbox runs already.
func (s *Sandboxes) RestoreSaved(args hostproto.CreateSandbox) (any, error) {
	handle, err := s.existing(args.ID)
	if err != nil {
		return nil, err
	}
	if handle.Owner != args.Owner || !handle.Root.Equal(args.Root) || handle.Runtime != boot.Runtime(args.Runtime) {
		return nil, hostproto.Errorf(hostproto.InvalidArgument, "sandbox.differs", "sandbox %s has a different owner, root or runtime", args.ID)
	}
	if handle.State == stateRunning && s.isAlive(args.ID) {
		return s.createdView(handle), nil
	}
	if handle.State != stateSaved && handle.State != stateRestoring {
		return nil, s.wrongState(handle, "resumed from disk")
	}
	if err := s.endSaved(handle); err != nil {
		return nil, err
	}
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: restore: %s", args.ID, clock) }()
	if err := s.checkSaved(handle); err != nil {
		return nil, savedFailure(args.ID, err)
	}
	clock.Lap("check")
	handle.State, handle.DeadlineMs, handle.WhenOver, handle.DiskBytes = stateRestoring, args.DeadlineMs, args.WhenOver, diskLimit(handle.Runtime, args)
	s.forgetRemovedSnapshots(handle)
	if err := s.save(handle); err != nil {
		return nil, err
	}
	if err := s.setDiskLimit(handle); err != nil {
		s.Log.Printf("%s: %v", args.ID, err)
		handle.noDiskLimit = err.Error()
	}
	if err := s.continueSaved(handle, args, clock); err != nil {
		return nil, savedFailure(args.ID, err)
	}
	if err := s.removeMemory(handle); err != nil {
		s.Log.Printf("%s: %v", args.ID, err)
	}
	return s.createdView(handle), nil
}

// checkSaved reports whether the memory and the files of a saved sandbox are there and complete.
func (s *Sandboxes) checkSaved(handle *Handle) error {
	release, err := s.memoryRelease(handle)
	if err != nil {
		return err
	}
	there, err := s.Pool.Has(handle.files())
	if err != nil {
		return err
	}
	if !there {
		return hostproto.Errorf(hostproto.DataLoss, "sandbox.files", "the files of sandbox %s are lost", handle.ID)
	}
	return handle.Saved.Check(s.memoryDir(handle), release, "the saved memory of sandbox "+handle.ID)
}

func (s *Sandboxes) continueSaved(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	saved, bootID := handle.Saved, handle.BootID
	// The record of the running sandbox, which both write, has no saved memory any more.
	handle.Saved, handle.WasPaused = nil, false
	var err error
	if handle.Runtime == boot.Machine {
		err = s.continueMachine(handle, args, clock)
	} else {
		restore := boot.Restore{Image: s.memoryDir(handle), BootID: handle.BootID}
		err = s.continueProcesses(handle, args, rootfs.OwnFiles, restore, clock)
	}
	if err != nil {
		if s.isAlive(handle.ID) {
			if undo := s.end(handle, stopwatch.New()); undo != nil {
				s.Log.Printf("%s: undo: %v", handle.ID, undo)
			}
		}
		handle.Saved, handle.BootID = saved, bootID
		handle.clearIDs()
		if undo := s.backToSaved(handle); undo != nil {
			s.Log.Printf("%s: undo: %v", handle.ID, undo)
		}
	}
	return err
}

// backToSaved undoes a resume from disk of which nothing runs any more. It may be called again.
func (s *Sandboxes) backToSaved(handle *Handle) error {
	if handle.Runtime == boot.Machine {
		if err := s.Machines.PutBackDisk(handle.ID, s.machineDisk(handle)); err != nil {
			return err
		}
	}
	handle.State = stateSaved
	handle.forgetRun()
	return s.save(handle)
}

// restoreError adds what to do about errors of runsc that have a known cause.
func restoreError(id string, err error) error {
	if text := err.Error(); strings.Contains(text, "incompatible FeatureSet") {
		_, features, _ := strings.Cut(text, "incompatible FeatureSet: ")
		features, _, _ = strings.Cut(features, "\n")
		return hostproto.Errorf(hostproto.FailedPrecondition, "memory.cpu",
			"the processor of this machine lacks features that the programs of sandbox %s use: %.200s", id, features).
			WithHint("continue it on a machine with the processor on which it was saved, or use its files only")
	}
	return err
}
