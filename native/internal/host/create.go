package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/launch"
	"agentpod/native/internal/rootfs"

	"golang.org/x/sys/unix"
)

// startTimeout bounds the runtime. It takes about ten milliseconds; a machine in deep trouble may take a while.
const startTimeout = 30 * time.Second

// create makes a sandbox and returns when podd has been started. Whatever fails, nothing stays behind.
func (h *Host) create(args hostproto.CreateSandbox) (any, error) {
	if h.runtime.Path == "" {
		return nil, hostproto.Errorf(hostproto.FailedPrecondition, "runtime.missing", "no OCI runtime: crun was not found").
			WithHint("apt-get install crun (or dnf install crun), then start podhost again")
	}
	if err := os.Mkdir(h.dir(args.ID), 0o700); err != nil {
		if os.IsExist(err) {
			return h.created(args)
		}
		return nil, err
	}
	handle := &Handle{ID: args.ID, State: stateCreating, Owner: args.Owner, Root: args.Root,
		DeadlineMs: args.DeadlineMs, CreatedMs: time.Now().UnixMilli()}
	if err := h.start(handle, args); err != nil {
		if undo := h.remove(handle, newStopwatch()); undo != nil {
			h.log.Printf("%s: undo: %v", args.ID, undo)
		}
		return nil, err
	}
	return h.createdView(handle), nil
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
	return map[string]any{"pid": handle.Pid, "startTime": handle.StartTime, "socket": h.socketPath(handle.ID),
		"limits": handle.Limits, "env": env}
}

// start does the work of create. The order lets slow things wait for the kernel side by side: the runtime's helper enters the groups
// while the root is being mounted.
func (h *Host) start(handle *Handle, args hostproto.CreateSandbox) error {
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: create: %s", args.ID, clock) }()
	if err := h.save(handle); err != nil {
		return err
	}
	group, err := h.cgroups.Create(args.ID, cgroup.Limits{MemoryBytes: args.Resources.MemoryBytes,
		SwapBytes: args.Resources.SwapBytes, CPUs: args.Resources.CPUs, Pids: args.Resources.Pids})
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	defer group.Close()
	handle.Limits = group.Levels
	clock.lap("cgroups")
	listener, err := listenUnix(h.socketPath(args.ID), 4096)
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	flags, files := poddArguments(listener, group)
	runtime, err := h.prepareRuntime(ctx, args.ID, group.Procs, files)
	if err != nil {
		return err
	}
	defer runtime.Abort()
	clock.lap("helper")
	defer h.stage.ReleaseRoot(args.ID)
	root, err := h.builder.Mount(args.ID, h.dir(args.ID), args.Root, args.Hostname)
	if err != nil {
		return err
	}
	handle.Base, handle.Env = root.Base, root.Env
	clock.lap("mounts")
	release, err := h.writeBundle(handle, args, bundle.Spec{Hostname: args.Hostname, Root: root.Path, PoddArgs: flags,
		TmpBytes: args.Resources.TmpBytes, ShmBytes: args.Resources.ShmBytes})
	defer release()
	if err != nil {
		return err
	}
	clock.lap("bundle")
	if err := runtime.Go(); err != nil {
		return h.startFailure(args.ID, err)
	}
	clock.lap("runtime")
	return h.started(handle)
}

// started finds the process that the runtime left behind and begins to watch it.
func (h *Host) started(handle *Handle) error {
	data, err := os.ReadFile(h.pidFile(handle.ID))
	if err != nil {
		return err
	}
	if handle.Pid, err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
		return err
	}
	handle.StartTime = startTime(handle.Pid)
	l, err := h.adopt(handle.ID, handle.Pid, handle.StartTime, handle.DeadlineMs)
	if err != nil {
		return err
	}
	if l == nil {
		return h.startFailure(handle.ID, errors.New("podd ended at once"))
	}
	handle.State = stateRunning
	return h.save(handle)
}

// poddArguments lists the descriptors podd gets, from 3 on, and the flags that say which is which.
func poddArguments(listener *os.File, group *cgroup.Group) (flags []string, files []*os.File) {
	pass := func(flag string, file *os.File) {
		if file != nil {
			flags = append(flags, flag, strconv.Itoa(3+len(files)))
			files = append(files, file)
		}
	}
	pass("--listener-fd", listener)
	pass("--payload-group-fd", group.Payload)
	pass("--oom-events-fd", group.OOM)
	return flags, files
}

func (h *Host) pidFile(id string) string { return filepath.Join(h.dir(id), "pid") }

func (h *Host) prepareRuntime(ctx context.Context, id string, procs []string, files []*os.File) (*launch.Launch, error) {
	program, err := h.program.open(h.runtime.Path)
	if err != nil {
		return nil, err
	}
	output, err := os.OpenFile(filepath.Join(h.dir(id), "podd.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	argv := []string{h.runtime.Path, "--root", filepath.Join(h.home, "run/runtime"), "--cgroup-manager=disabled", "run", "--detach",
		fmt.Sprintf("--preserve-fds=%d", len(files)), "--pid-file", h.pidFile(id), "--bundle", filepath.Join(h.dir(id), "bundle"), id}
	return launch.Prepare(ctx, program, procs, argv, files, output)
}

// writeBundle completes spec and writes it down. release gives back what the runtime needs until it has run.
func (h *Host) writeBundle(handle *Handle, args hostproto.CreateSandbox, spec bundle.Spec) (release func(), err error) {
	release = func() {}
	namespace, err := h.spares.take()
	if err != nil {
		return release, err
	}
	bootName := "boot-" + handle.ID
	release = func() {
		namespace.Close()
		h.stage.RemoveFile(bootName)
	}
	spec.UserNamespace = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), namespace.Fd())
	if spec.BootID, err = h.stage.File(bootName, []byte(newUUID()+"\n"), 0o444); err != nil {
		return release, err
	}
	spec.Files, handle.Limits["files"] = fileLimit(args.Resources.Files)
	if pids := args.Resources.Pids; pids > 0 && handle.Limits["pids"].Level == "none" {
		// Where no group counts, the kernel still counts per user and user namespace.
		spec.MaxProcesses = uint64(pids)
		handle.Limits["pids"] = cgroup.Level{Level: "soft", Reason: "counted for each user inside, since " + handle.Limits["pids"].Reason}
	}
	dir := filepath.Join(h.dir(handle.ID), "bundle")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return release, err
	}
	data, err := json.Marshal(bundle.Config(spec))
	if err != nil {
		return release, err
	}
	return release, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// startFailure adds what the runtime, or podd, had to say.
func (h *Host) startFailure(id string, err error) error {
	said, _ := os.ReadFile(filepath.Join(h.dir(id), "podd.log"))
	said = bytes.TrimSpace(said)
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	if bytes.Contains(said, []byte("No space left on device")) {
		return hostproto.Errorf(hostproto.ResourceExhausted, "disk.full", "start of %s: %s", id, said)
	}
	return hostproto.Errorf(hostproto.Internal, "runtime.failed", "start of %s: %v: %s", id, err, said)
}

// fileLimit never asks for more than podhost's own limit: raising one takes a capability that podhost may lack.
func fileLimit(asked int64) (uint64, cgroup.Level) {
	if asked == 0 {
		return 0, cgroup.NotAsked
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err == nil && own.Max < uint64(asked) {
		return own.Max, cgroup.Level{Level: "enforced", Reason: fmt.Sprintf("at %d, podhost's own limit", own.Max)}
	}
	return uint64(asked), cgroup.Enforced
}

func newUUID() string {
	x := rootfs.RandomHex(16)
	return x[:8] + "-" + x[8:12] + "-4" + x[13:16] + "-a" + x[17:20] + "-" + x[20:]
}
