package lifecycle

import (
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
	release, err := s.Launcher.Runsc.Release()
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
	run := boot.NewRun(s.Home, "sh"+random.Hex(7), handle.Runtime)
	handle.Shell = run.Name
	defer s.Launcher.Stage.ReleaseRoot(handle.ID)
	err = s.Launcher.StartRestored(run, boot.Restore{Image: image, Hostname: args.Hostname, Mount: func(run *boot.Run) (string, error) {
		return s.prepareRestored(run, handle, args)
	}})
	if err != nil {
		if undo := s.Launcher.End(run, stopwatch.New()); undo != nil {
			s.Log.Printf("%s: undo: %v", handle.ID, undo)
		}
		return err
	}
	clock.Lap("restore")
	handle.setRun(run)
	return s.watchStarted(handle)
}

// prepareRestored sets the limits of a run that does not run yet, and mounts its root.
func (s *Sandboxes) prepareRestored(run *boot.Run, handle *Handle, args hostproto.CreateSandbox) (string, error) {
	s.setLimits(handle, s.Launcher.Cgroups.Limit(run.Name, limitsOf(handle.Runtime, args.Resources)), args.Resources)
	user, err := run.UserNamespace()
	if err != nil {
		return "", err
	}
	defer user.Close()
	root, err := s.mountRoot(handle, args, rootfs.CopiedFiles, s.rootIDs(run.IDs, user))
	return root.Path, err
}
