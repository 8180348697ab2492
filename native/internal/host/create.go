package host

import (
	"errors"
	"os"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
)

// create makes a sandbox and returns when podd has been started. Whatever fails, nothing stays behind.
func (h *Host) create(args hostproto.CreateSandbox) (any, error) {
	if err := h.canStart(); err != nil {
		return nil, err
	}
	files, err := h.pool.Entry(pool.Sandboxes, args.ID)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(h.dir(args.ID), 0o700); err != nil {
		if os.IsExist(err) {
			return h.created(args)
		}
		return nil, err
	}
	handle := &Handle{ID: args.ID, State: stateCreating, Owner: args.Owner, Root: args.Root, DeadlineMs: args.DeadlineMs,
		WhenOver: args.WhenOver, CreatedMs: time.Now().UnixMilli(), Volume: files.IsVolume}
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: create: %s", args.ID, clock) }()
	err = h.save(handle)
	if err == nil {
		err = h.begin(handle, args, clock)
	}
	if err != nil {
		if undo := h.remove(handle, newStopwatch()); undo != nil {
			h.log.Printf("%s: undo: %v", args.ID, undo)
		}
		return nil, err
	}
	return h.createdView(handle), nil
}

// canStart refuses before anything is made.
func (h *Host) canStart() error {
	if h.runtime.Path == "" {
		return hostproto.Errorf(hostproto.FailedPrecondition, "runtime.missing", "no OCI runtime: crun was not found").
			WithHint("apt-get install crun (or dnf install crun), then start podhost again")
	}
	return h.pool.Room()
}

// begin gives a new sandbox its files, and starts it on them.
func (h *Host) begin(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch) error {
	files := rootfs.NewFiles
	handle.DiskBytes = args.Resources.DiskBytes
	var err error
	if args.Snapshot != "" {
		files, err = rootfs.TakenFiles, h.takeSnapshot(handle, args)
	} else {
		err = h.newEntry(handle.files(), args.Root, args.Resources.DiskBytes)
	}
	if err != nil {
		return err
	}
	clock.lap("volume")
	return h.start(handle, args, files, clock)
}

// created answers a create whose sandbox runs already: the answer to an earlier call may have been lost with its connection.
func (h *Host) created(args hostproto.CreateSandbox) (any, error) {
	handle, err := h.load(args.ID)
	if err != nil {
		return nil, err
	}
	_, ended := h.loadExit(args.ID)
	if handle == nil || handle.State != stateRunning || handle.Owner != args.Owner || ended {
		return nil, hostproto.Errorf(hostproto.AlreadyExists, "sandbox.exists", "sandbox %s exists", args.ID)
	}
	return h.createdView(handle), nil
}

func (h *Host) createdView(handle *Handle) any {
	env := handle.Env
	if env == nil {
		env = map[string]string{}
	}
	out, level := h.wayOut(handle)
	return map[string]any{"pid": handle.Pid, "startTime": handle.StartTime, "socket": h.socket(handle), "limits": handle.Limits, "env": env,
		"out": out, "network": level, "ids": h.idsOf(handle)}
}

// start runs podd in a root of the sandbox's files. The order lets slow things wait for the kernel side by side: the runtime's helper
// enters the groups while the root is being mounted.
func (h *Host) start(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch) error {
	defer h.stage.ReleaseRoot(handle.ID)
	if shell := h.shells.take(); shell != nil {
		return h.startInShell(shell, handle, args, files, clock)
	}
	return h.startWithoutShell(handle, args, files, clock)
}

func (h *Host) startWithoutShell(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch) error {
	b, err := h.prepareBoot(handle, limitsOf(args.Resources), clock)
	if err != nil {
		return err
	}
	root, err := h.mountRoot(handle, args, files, h.rootIDs(b.spare.ids, b.spare.User))
	if err != nil {
		b.close()
		return err
	}
	clock.lap("mounts")
	return h.startCold(b, handle, args, root, clock)
}

// startCold lets the runtime begin in root.
func (h *Host) startCold(b *boot, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted, clock *stopwatch) error {
	defer b.close()
	h.setLimits(handle, b.group.Levels, args.Resources)
	if err := h.boot(b, handle, bundle.Spec{Hostname: args.Hostname, Root: root.Path, TmpBytes: args.Resources.TmpBytes,
		ShmBytes: args.Resources.ShmBytes}, args.Resources, clock); err != nil {
		return err
	}
	if err := h.findPodd(handle); err != nil {
		return err
	}
	if err := limitProcesses(handle, handle.Pid, args.Resources.Pids); err != nil {
		return err
	}
	return h.watched(handle)
}

// mountRoot assembles the root on the stage. The caller releases it, also after an error.
func (h *Host) mountRoot(handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, as rootfs.IDs) (rootfs.Mounted, error) {
	over, err := h.overUppers(args.Root)
	if err != nil {
		return rootfs.Mounted{}, err
	}
	root, err := h.builder.Mount(rootfs.Plan{ID: handle.ID, IDs: as, Data: h.pool.Path(handle.files()), Root: args.Root, Over: over, Hostname: args.Hostname,
		Files: files})
	if err == nil {
		handle.Base, handle.Env = root.Base, root.Env
	}
	return root, err
}

// setLimits notes what holds of the limits: those of the groups, and those that are not a group's.
func (h *Host) setLimits(handle *Handle, levels map[string]cgroup.Level, asked hostproto.Resources) {
	handle.Limits = levels
	_, levels["files"] = fileLimit(asked.Files)
	if asked.Pids > 0 && levels["pids"].Level == "none" {
		// Where no group counts, the kernel still counts per user and user namespace.
		levels["pids"] = cgroup.Level{Level: "soft", Reason: "counted for each user inside, since " + levels["pids"].Reason}
	}
	levels["disk"] = cgroup.NotAsked
	if asked.DiskBytes > 0 {
		levels["disk"] = cgroup.Enforced
		if enforced, reason := h.pool.Limits(); !enforced || !handle.Volume {
			levels["disk"] = cgroup.None("%s", reason)
		} else if handle.noDiskLimit != "" {
			levels["disk"] = cgroup.None("%s", handle.noDiskLimit)
		}
	}
}

// watched begins to watch podd; the sandbox runs from here on.
func (h *Host) watched(handle *Handle) error {
	l, err := h.adopt(handle)
	if err != nil {
		return err
	}
	if l == nil {
		return h.startFailure(handle, errors.New("podd ended at once"))
	}
	handle.State = stateRunning
	if err := h.save(handle); err != nil {
		return err
	}
	handle.detach()
	return nil
}
