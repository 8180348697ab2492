package lifecycle

import (
	"errors"
	"os"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// start runs podd in a root with the sandbox's files. The order lets slow steps run at the same time: the
// runtime's helper enters the groups while the root is being mounted.
func (s *Sandboxes) start(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch.Stopwatch) error {
	defer s.Launcher.Stage.ReleaseRoot(handle.ID)
	if shell := s.Shells.Take(); shell != nil {
		return s.startInShell(shell, handle, args, files, clock)
	}
	return s.startWithoutShell(handle, args, files, clock)
}

func (s *Sandboxes) startWithoutShell(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch.Stopwatch) error {
	b, err := s.prepareBoot(handle, nil, args.Resources, clock)
	if err != nil {
		return err
	}
	root, err := s.mountRoot(handle, args, files, s.rootIDs(handle.run.IDs, b.UserNamespace()))
	if err != nil {
		b.Close()
		return err
	}
	clock.Lap("mounts")
	return s.startBoot(b, handle, args, root, clock)
}

// prepareBoot prepares a run of the sandbox. If taken is not nil, the run uses these ids.
func (s *Sandboxes) prepareBoot(handle *Handle, taken *ids.Range, asked hostproto.Resources, clock *stopwatch.Stopwatch) (*boot.Boot, error) {
	run := boot.NewRun(s.Home, handle.ID, s.dir(handle.ID))
	run.SetIDs(taken)
	b, err := s.Launcher.Prepare(run, limitsOf(asked), clock)
	// The run is recorded also after a failure, so that ending the sandbox frees what the run has.
	handle.setRun(run)
	return b, err
}

// startBoot lets the runtime begin in root.
func (s *Sandboxes) startBoot(b *boot.Boot, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted, clock *stopwatch.Stopwatch) error {
	defer b.Close()
	s.setLimits(handle, b.Levels, args.Resources)
	err := b.Start(bundle.Spec{Hostname: args.Hostname, Root: root.Path, TmpBytes: args.Resources.TmpBytes,
		ShmBytes: args.Resources.ShmBytes}, args.Resources.Files, clock)
	handle.setRun(handle.run)
	if err != nil {
		return err
	}
	if err := limitProcesses(handle, handle.Pid, args.Resources.Pids); err != nil {
		return err
	}
	return s.watchStarted(handle)
}

// startInShell runs the sandbox in a shell. If the shell turns out to be useless, the sandbox starts without
// one.
func (s *Sandboxes) startInShell(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch.Stopwatch) error {
	user, err := shell.UserNamespace()
	if err != nil {
		s.Log.Printf("%s: shell %s: %v", handle.ID, shell.Name, err)
		s.Shells.Discard(shell)
		return s.startWithoutShell(handle, args, files, clock)
	}
	defer user.Close()
	root, err := s.mountRoot(handle, args, files, s.rootIDs(shell.IDs, user))
	if err != nil {
		s.Shells.Discard(shell)
		return err
	}
	clock.Lap("mounts")
	if err := s.occupy(shell, handle, args, root); err != nil {
		s.Log.Printf("%s: shell %s: %v", handle.ID, shell.Name, err)
		return s.startAfterShell(shell, handle, args, root, clock)
	}
	clock.Lap("swap")
	handle.Shell = shell.Name
	handle.setRun(shell.Run)
	return s.watchStarted(handle)
}

// startAfterShell starts the sandbox in a root that was mounted with the ids of a shell. The sandbox takes
// these ids over when the shell has ended.
func (s *Sandboxes) startAfterShell(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted, clock *stopwatch.Stopwatch) error {
	taken, err := s.Shells.EndKeepingIDs(shell)
	if err != nil {
		return err
	}
	b, err := s.prepareBoot(handle, taken, args.Resources, clock)
	if err != nil {
		return err
	}
	return s.startBoot(b, handle, args, root, clock)
}

// occupy sets the sandbox's limits, name and root on a shell. The limits come first: nothing of the sandbox
// is there before them.
func (s *Sandboxes) occupy(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted) error {
	if !shell.IsAlive() {
		return boot.ErrPoddEnded
	}
	s.setLimits(handle, s.Launcher.Cgroups.Limit(shell.Name, limitsOf(args.Resources)), args.Resources)
	if err := shell.LimitFiles(args.Resources.Files); err != nil {
		return err
	}
	if err := limitProcesses(handle, shell.Pid, args.Resources.Pids); err != nil {
		return err
	}
	return shell.SwapRoot(root.Path, args.Hostname, args.Resources)
}

// rootIDs says how to mount a root for processes that run as r in a user namespace.
func (s *Sandboxes) rootIDs(r *ids.Range, user *os.File) rootfs.IDs {
	as := rootfs.IDs{Range: r.Range, Stored: r.Stored}
	if s.Launcher.Stage.Shifted() {
		as.Plain = user
	}
	return as
}

// mountRoot assembles the root on the stage. The caller releases it, also after an error.
func (s *Sandboxes) mountRoot(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, as rootfs.IDs) (rootfs.Mounted, error) {
	over, err := s.Snapshots.Uppers(args.Root)
	if err != nil {
		return rootfs.Mounted{}, err
	}
	root, err := s.Builder.Mount(rootfs.Plan{ID: handle.ID, IDs: as, Data: s.Pool.Path(handle.files()), Root: args.Root, Over: over,
		Hostname: args.Hostname, Files: files})
	if err == nil {
		handle.Base, handle.Env = root.Base, root.Env
	}
	return root, err
}

// watchStarted begins to watch podd. From here on the sandbox runs.
func (s *Sandboxes) watchStarted(handle *Handle) error {
	l, err := s.adopt(handle)
	if err != nil {
		return err
	}
	if l == nil {
		return handle.run.Failure(handle.ID, errors.New("podd ended immediately"))
	}
	handle.State = stateRunning
	if err := s.save(handle); err != nil {
		return err
	}
	handle.run.Detach()
	return nil
}

func limitsOf(r hostproto.Resources) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: r.MemoryBytes, SwapBytes: r.SwapBytes, CPUs: r.CPUs, Pids: r.Pids}
}

// setLimits records which limits hold: those of the groups, and the others.
func (s *Sandboxes) setLimits(handle *Handle, levels map[string]cgroup.Level, asked hostproto.Resources) {
	handle.Limits = levels
	_, levels["files"] = boot.FileLimit(asked.Files)
	if asked.Pids > 0 && levels["pids"].Level == "none" {
		// Without a group, the kernel still counts processes for each user in a user namespace.
		levels["pids"] = cgroup.Level{Level: "soft", Reason: "counted for each user inside, since " + levels["pids"].Reason}
	}
	levels["disk"] = cgroup.NotAsked
	if asked.DiskBytes > 0 {
		levels["disk"] = cgroup.Enforced
		if enforced, reason := s.Pool.Limits(); !enforced || !handle.Volume {
			levels["disk"] = cgroup.None("%s", reason)
		} else if handle.noDiskLimit != "" {
			levels["disk"] = cgroup.None("%s", handle.noDiskLimit)
		}
	}
}

// limitProcesses is used where no cgroup counts processes: the sandbox's user namespace counts them, for each
// user in it. The runtime cannot set this limit. It would set it on itself, outside the namespace, where the
// processes of podhost and of all sandboxes count as one user's.
func limitProcesses(handle *Handle, podd int, asked int64) error {
	if handle.Limits["pids"].Level != "soft" {
		return nil
	}
	return boot.LowerLimit(podd, unix.RLIMIT_NPROC, uint64(asked))
}
