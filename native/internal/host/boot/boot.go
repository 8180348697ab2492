// Package boot starts podd in namespaces, control groups and a root of its own, and removes everything of it
// but the sandbox's files.
package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/launch"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/random"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/unixsocket"
)

// startTimeout bounds the runtime. It normally takes about ten milliseconds; an overloaded machine takes
// longer.
const startTimeout = 30 * time.Second

// poddWait is how long podd waits for its settings, in milliseconds.
const poddWait = "3600000"

// egressBacklog is how many connections of the egress process may wait for podd to accept them. podd keeps as
// many.
const egressBacklog = 128

// ErrPoddEnded: podd ended before it was of use.
var ErrPoddEnded = errors.New("its podd has ended")

// A Launcher starts and ends podds.
type Launcher struct {
	Home       string
	Cgroups    cgroup.Manager
	Namespaces *NamespacePool
	Stage      *mount.Stage
	Runtime    Runtime

	program sealedProgram
}

// A Boot is a podd that is about to start: its groups, namespaces and sockets exist, and the runtime waits
// for a root.
type Boot struct {
	// Levels says which limits hold.
	Levels map[string]cgroup.Level

	launcher   *Launcher
	run        *Run
	group      *cgroup.Group
	namespaces *namespaceSet
	listener   *os.File
	// out is where the egress process connects; nil without egress.
	out *os.File
	// parent is podd's end of the pipe in run.parent.
	parent  *os.File
	flags   []string
	runtime *launch.Launch
	cancel  context.CancelFunc
}

// Close frees what podd does not need any more, or ends a boot that did not start.
func (b *Boot) Close() {
	if b.runtime != nil {
		b.runtime.Abort()
	}
	if b.cancel != nil {
		b.cancel()
	}
	for _, file := range []*os.File{b.listener, b.out, b.parent} {
		if file != nil {
			file.Close()
		}
	}
	if b.namespaces != nil {
		b.namespaces.close()
	}
	if b.group != nil {
		b.group.Close()
	}
}

// UserNamespace is the one that podd will run in.
func (b *Boot) UserNamespace() *os.File { return b.namespaces.User }

// Prepare makes everything that does not depend on the root. The caller closes the boot. If Prepare fails,
// the caller still ends the run. If the run has a range of ids, the namespaces use that range.
func (l *Launcher) Prepare(run *Run, limits cgroup.Limits, clock *stopwatch.Stopwatch) (b *Boot, err error) {
	b = &Boot{launcher: l, run: run}
	// A return with an error sets b to nil before this runs.
	defer func(made *Boot) {
		if err != nil {
			made.Close()
		}
	}(b)
	if b.group, err = l.Cgroups.Create(run.Name, limits); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	b.Levels = b.group.Levels
	clock.Lap("cgroups")
	if run.IDs != nil {
		b.namespaces, err = makeNamespaces(run.IDs)
	} else {
		b.namespaces, err = l.Namespaces.take()
	}
	if err != nil {
		return nil, err
	}
	run.SetIDs(b.namespaces.ids)
	run.Network = b.namespaces.network.Level
	if b.listener, err = unixsocket.Listen(run.Socket, 4096); err != nil {
		return nil, err
	}
	if HasEgress(run.Network) {
		if b.out, err = unixsocket.Listen(run.Out, egressBacklog); err != nil {
			return nil, err
		}
	}
	if b.parent, run.parent, err = os.Pipe(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	b.cancel = cancel
	flags, files := b.poddArguments()
	b.flags = flags
	if b.runtime, err = l.prepareRuntime(ctx, run, b.group.Procs, files); err != nil {
		return nil, err
	}
	clock.Lap("helper")
	return b, nil
}

// Start completes spec, writes it to the bundle and lets the runtime continue. podd runs when Start returns.
func (b *Boot) Start(spec bundle.Spec, files int64, clock *stopwatch.Stopwatch) error {
	spec.PoddArgs = b.flags
	spec.Files, _ = FileLimit(files)
	spec.UserNamespace, spec.NetworkNamespace = pathOf(b.namespaces.User), pathOf(b.namespaces.Network)
	release, err := b.writeBundle(spec)
	defer release()
	if err != nil {
		return err
	}
	clock.Lap("bundle")
	if err := b.runtime.Go(); err != nil {
		return b.run.Failure(b.run.Name, err)
	}
	clock.Lap("runtime")
	if b.run.Pid, err = b.run.writtenPid(); err != nil {
		return err
	}
	b.run.StartTime = processes.StartTime(b.run.Pid)
	return nil
}

// poddArguments returns the descriptors that podd gets, from 3 on, and the flags that name them.
func (b *Boot) poddArguments() (flags []string, files []*os.File) {
	pass := func(flag string, file *os.File) {
		if file != nil {
			flags = append(flags, flag, strconv.Itoa(3+len(files)))
			files = append(files, file)
		}
	}
	pass("--listener-fd", b.listener)
	pass("--payload-group-fd", b.group.Payload)
	pass("--oom-events-fd", b.group.OOM)
	pass("--door-fd", b.namespaces.network.Listener)
	pass("--dns-fd", b.namespaces.network.DNS)
	pass("--dns-tcp-fd", b.namespaces.network.DNSOverTCP)
	pass("--out-fd", b.out)
	pass("--parent-fd", b.parent)
	return append(flags, "--narrow-kernel-files", "--wait-ms", poddWait), files
}

func (l *Launcher) prepareRuntime(ctx context.Context, run *Run, procs []string, files []*os.File) (*launch.Launch, error) {
	program, err := l.program.open(l.Runtime.Path)
	if err != nil {
		return nil, err
	}
	output, err := os.OpenFile(run.LogPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	argv := []string{l.Runtime.Path, "--root", filepath.Join(l.Home, "run/runtime"), "--cgroup-manager=disabled", "run", "--detach", "--no-new-keyring",
		fmt.Sprintf("--preserve-fds=%d", len(files)), "--pid-file", run.pidFile(), "--bundle", filepath.Join(run.Dir, "bundle"), run.Name}
	return launch.Prepare(ctx, program, procs, argv, files, output)
}

// writeBundle adds a boot id to spec and writes it. release removes what the runtime needs only until it has
// run.
func (b *Boot) writeBundle(spec bundle.Spec) (release func(), err error) {
	bootName := "boot-" + b.run.Name
	release = func() { b.launcher.Stage.RemoveFile(bootName) }
	if spec.BootID, err = b.launcher.Stage.File(bootName, []byte(newUUID()+"\n"), 0o444); err != nil {
		return release, err
	}
	dir := filepath.Join(b.run.Dir, "bundle")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return release, err
	}
	data, err := json.Marshal(bundle.Config(spec))
	if err != nil {
		return release, err
	}
	return release, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

func newUUID() string {
	x := random.Hex(16)
	return x[:8] + "-" + x[8:12] + "-4" + x[13:16] + "-a" + x[17:20] + "-" + x[20:]
}
