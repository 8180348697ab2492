package lifecycle

import (
	"errors"
	"os"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"
)

// Create creates a sandbox and returns when podd has been started. If it fails, it leaves nothing behind.
func (s *Sandboxes) Create(args hostproto.CreateSandbox) (any, error) {
	if err := s.Pool.CheckSpace(); err != nil {
		return nil, err
	}
	files, err := s.Pool.Entry(pool.Sandboxes, args.ID)
	if err != nil {
		return nil, err
	}
	handle := &Handle{ID: args.ID, State: stateCreating, Owner: args.Owner, Root: args.Root, DeadlineMs: args.DeadlineMs,
		WhenOver: args.WhenOver, CreatedMs: time.Now().UnixMilli(), Volume: files.IsVolume, From: args.Snapshot, Mounts: args.Mounts, Runtime: boot.Runtime(args.Runtime), Docker: args.Docker}
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: create: %s", args.ID, clock) }()
	if err := s.saveNew(handle); errors.Is(err, os.ErrExist) {
		return s.alreadyCreated(args)
	} else if err != nil {
		return nil, err
	}
	clock.Lap("record")
	if err := s.createFiles(handle, args, clock); err != nil {
		if undo := s.remove(handle, stopwatch.New()); undo != nil {
			s.Log.Printf("%s: undo: %v", args.ID, undo)
		}
		return nil, err
	}
	return s.createdView(handle), nil
}

// createFiles gives a new sandbox its files, and starts it on them.
func (s *Sandboxes) createFiles(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	if handle.Runtime == boot.Machine {
		return s.createMachine(handle, args, clock)
	}
	if args.Memory {
		return s.createRestored(handle, args, clock)
	}
	pool := s.shellsOf(handle.Runtime)
	defer pool.Starting()()
	handle.DiskBytes = args.Resources.DiskBytes
	shell := takeShell(pool, args.Docker, readySizes(args))
	if shell != nil && shell.Root != nil {
		err := s.startReady(shell, handle, args, clock)
		if err == nil {
			return s.watchStarted(handle)
		}
		s.Log.Printf("%s: shell %s: %v", handle.ID, shell.Name, err)
		shell = nil
	}
	files := rootfs.NewFiles
	var err error
	if args.Snapshot != "" {
		files = rootfs.CopiedFiles
		handle.FromBytes, err = s.Snapshots.CopyTo(handle.files(), args)
	} else {
		err = s.Snapshots.NewEntry(handle.files(), args.Root, args.Resources.DiskBytes)
	}
	if err != nil {
		if shell != nil {
			pool.Discard(shell)
		}
		return err
	}
	clock.Lap("volume")
	return s.start(shell, handle, args, files, clock)
}

// takeShell returns nil if no shell is ready that can become the sandbox.
func takeShell(pool *shells.Pool, docker bool, sizes *shells.Sizes) *shells.Shell {
	if docker {
		// Shells have no capabilities for a container engine.
		return nil
	}
	return pool.Take(sizes)
}

// alreadyCreated answers a create whose sandbox runs: the answer to an earlier call may have been lost with
// its connection.
func (s *Sandboxes) alreadyCreated(args hostproto.CreateSandbox) (any, error) {
	handle, err := s.load(args.ID)
	if err != nil {
		return nil, err
	}
	_, ended := s.loadExit(args.ID)
	if handle == nil || handle.State != stateRunning || handle.Owner != args.Owner || ended {
		return nil, hostproto.Errorf(hostproto.AlreadyExists, "sandbox.exists", "sandbox %s exists already", args.ID)
	}
	return s.createdView(handle), nil
}

func (s *Sandboxes) createdView(handle *Handle) any {
	env := handle.Env
	if env == nil {
		env = map[string]string{}
	}
	out, level := s.egress(handle)
	return map[string]any{"pid": handle.Pid, "startTime": handle.StartTime, "socket": s.runOf(handle).Socket, "limits": handle.Limits,
		"env": env, "out": out, "network": level, "ids": s.idsOf(handle)}
}
