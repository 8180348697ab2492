package lifecycle

import (
	"errors"
	"os"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// start runs podd in a root with the sandbox's files: in this shell, or if it is nil, in one that it starts.
func (s *Sandboxes) start(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch.Stopwatch) error {
	defer s.Launcher.Stage.ReleaseRoot(handle.ID)
	pool := s.shellsOf(handle.Runtime)
	shell, user, err := s.enterShell(pool, shell, handle)
	if err != nil {
		return err
	}
	defer user.Close()
	clock.Lap("shell")
	// A shell that was just started prepares itself while the root is being mounted.
	root, err := s.mountRoot(handle, args, files, s.rootIDs(shell.IDs, user))
	if err != nil {
		pool.Discard(shell)
		return err
	}
	clock.Lap("mounts")
	if err := s.occupy(shell, handle, args, root); err != nil {
		s.Log.Printf("%s: shell %s: %v", handle.ID, shell.Name, err)
		if shell, err = s.occupyAnother(shell, handle, args, root); err != nil {
			return err
		}
	}
	clock.Lap("swap")
	handle.Shell = shell.Name
	handle.setRun(shell.Run)
	return s.watchStarted(handle)
}

// enterShell returns a shell and its user namespace. It starts a shell if there is none.
func (s *Sandboxes) enterShell(pool *shells.Pool, shell *shells.Shell, handle *Handle) (*shells.Shell, *os.File, error) {
	if shell != nil {
		user, err := shell.UserNamespace()
		if err == nil {
			return shell, user, nil
		}
		s.Log.Printf("%s: shell %s: %v", handle.ID, shell.Name, err)
		pool.Discard(shell)
	}
	shell, err := pool.Start(nil, handle.Docker)
	if err != nil {
		return nil, nil, err
	}
	user, err := shell.UserNamespace()
	if err != nil {
		err = shell.Failure(handle.ID, err)
		pool.Discard(shell)
		return nil, nil, err
	}
	return shell, user, nil
}

// occupyAnother is for a shell that turns out to be useless after the root was mounted with its ids. Another
// shell takes these ids over.
func (s *Sandboxes) occupyAnother(useless *shells.Shell, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted) (*shells.Shell, error) {
	pool := s.shellsOf(handle.Runtime)
	taken, err := pool.EndKeepingIDs(useless)
	if err != nil {
		return nil, err
	}
	shell, err := pool.Start(taken, handle.Docker)
	if err != nil {
		return nil, err
	}
	if err := s.occupy(shell, handle, args, root); err != nil {
		pool.Discard(shell)
		return nil, err
	}
	return shell, nil
}

// occupy sets the sandbox's limits, name and root on a shell. The limits come first: nothing of the sandbox
// is there before them.
func (s *Sandboxes) occupy(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted) error {
	pool := s.shellsOf(handle.Runtime)
	if err := pool.AwaitReady(shell); err != nil {
		return err
	}
	if err := s.limit(shell, handle, args.Resources); err != nil {
		return err
	}
	return pool.SwapRoot(shell, shells.NewRoot{Path: root.Path, Hostname: args.Hostname, Dirs: args.RootDirs, Files: args.Resources.Files,
		Sizes: shells.Sizes{Tmp: args.Resources.TmpBytes, Shm: args.Resources.ShmBytes}})
}

// limit sets the sandbox's limits on a shell.
func (s *Sandboxes) limit(shell *shells.Shell, handle *Handle, asked hostproto.Resources) error {
	if !shell.IsAlive() {
		return boot.ErrPoddEnded
	}
	s.setLimits(handle, s.Launcher.Cgroups.Limit(shell.Name, limitsOf(handle.Runtime, asked)), asked)
	if err := shell.LimitFiles(asked.Files); err != nil {
		return err
	}
	return limitProcesses(handle, shell.Pid, asked.Pids)
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
	plan := rootfs.Plan{ID: handle.ID, IDs: as, Data: s.Pool.Path(handle.files()), Root: args.Root, Over: over,
		Hostname: args.Hostname, Files: files}
	root, err := s.Builder.Mount(plan)
	if err == nil && handle.Runtime == boot.GVisor && files != rootfs.OwnFiles {
		err = s.renumber(root.Path, plan, args)
	}
	if err == nil && handle.Docker && handle.Runtime == boot.GVisor {
		err = s.Builder.MountEngineData(root.Path, plan)
	}
	if err == nil {
		err = s.mountInside(root.Path, plan, args)
	}
	if err == nil {
		handle.Base, handle.Env = root.Base, root.Env
	}
	return root, err
}

// renumber makes sure that no two files of a new gVisor sandbox have one inode number.
func (s *Sandboxes) renumber(path string, plan rootfs.Plan, args hostproto.CreateSandbox) error {
	which, err := s.Snapshots.Unordered(args.Root, args.Snapshot)
	if err != nil {
		return err
	}
	return s.Builder.Renumber(path, plan, which, s.Pool.CheckSpace)
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

// gVisorTasks is how many more processes gVisor has on the host than twice those inside: each process inside
// has a process that executes its code and a thread of the kernel in user space.
const gVisorTasks = 64

func limitsOf(runtime boot.Runtime, r hostproto.Resources) cgroup.Limits {
	if runtime == boot.GVisor && r.Pids > 0 {
		r.Pids = 2*r.Pids + gVisorTasks
	}
	return cgroup.Limits{MemoryBytes: r.MemoryBytes, SwapBytes: r.SwapBytes, CPUs: r.CPUs, Pids: r.Pids}
}

// setLimits records which limits hold: those of the groups, and the others.
func (s *Sandboxes) setLimits(handle *Handle, levels map[string]cgroup.Level, asked hostproto.Resources) {
	handle.Limits = levels
	_, levels["files"] = boot.FileLimit(asked.Files)
	if asked.Pids > 0 && levels["pids"].Level == "none" && handle.Runtime != boot.GVisor {
		// Without a group, the kernel still counts processes for each user in a user namespace. In gVisor's it
		// would count gVisor's own, and those of podhost's user with them.
		levels["pids"] = cgroup.Level{Level: "soft", Reason: "counted for each user inside, since " + levels["pids"].Reason}
	}
	if handle.Runtime == boot.GVisor && levels["pids"] == cgroup.Enforced {
		levels["pids"] = cgroup.Level{Level: "soft", Reason: "gVisor's own processes on the host are counted, about two for each one inside"}
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
// user in it.
func limitProcesses(handle *Handle, podd int, asked int64) error {
	if handle.Limits["pids"].Level != "soft" || handle.Runtime == boot.GVisor {
		return nil
	}
	return boot.LowerLimit(podd, unix.RLIMIT_NPROC, uint64(asked))
}
