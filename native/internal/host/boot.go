package host

import (
	"bytes"
	"context"
	"encoding/json"
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

// startTimeout bounds the runtime. It takes about ten milliseconds; a machine in deep trouble may take a
// while.
const startTimeout = 30 * time.Second

// A boot is podd about to be started: its groups, namespaces and sockets are there, and the runtime waits at
// its gate for a root.
type boot struct {
	group    *cgroup.Group
	spare    *spare
	listener *os.File
	// out is where the egress process dials in; nil where there is no way out.
	out *os.File
	// parent is podd's end of the pipe in handle.parent.
	parent  *os.File
	flags   []string
	runtime *launch.Launch
	cancel  context.CancelFunc
}

func (b *boot) close() {
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
	if b.spare != nil {
		b.spare.close()
	}
	if b.group != nil {
		b.group.Close()
	}
}

// prepareBoot does what needs no root. The caller closes what it returns; what it made in the file system is
// remove's and end's to take away. With a range of ids in the handle it makes namespaces of those.
func (h *Host) prepareBoot(handle *Handle, limits cgroup.Limits, clock *stopwatch) (b *boot, err error) {
	b = &boot{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.group, err = h.cgroups.Create(handle.group(), limits); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	clock.lap("cgroups")
	if handle.ids != nil {
		b.spare, err = makeSpare(handle.ids)
	} else {
		b.spare, err = h.spares.take()
	}
	if err != nil {
		return nil, err
	}
	handle.setIDs(b.spare.ids)
	handle.Network = b.spare.network.Level
	if b.listener, err = listenUnix(h.socket(handle), 4096); err != nil {
		return nil, err
	}
	if handle.hasWayOut() {
		if b.out, err = listenUnix(h.out(handle), outBacklog); err != nil {
			return nil, err
		}
	}
	if b.parent, handle.parent, err = os.Pipe(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	b.cancel = cancel
	flags, files := b.poddArguments()
	b.flags = flags
	if b.runtime, err = h.prepareRuntime(ctx, handle, b.group.Procs, files); err != nil {
		return nil, err
	}
	clock.lap("helper")
	return b, nil
}

// boot completes spec, writes it down and lets the runtime go. podd runs when it returns.
func (h *Host) boot(b *boot, handle *Handle, spec bundle.Spec, asked hostproto.Resources, clock *stopwatch) error {
	spec.PoddArgs = b.flags
	spec.Files, _ = fileLimit(asked.Files)
	spec.UserNamespace, spec.NetworkNamespace = pathOf(b.spare.User), pathOf(b.spare.Network)
	release, err := h.writeBundle(handle, spec)
	defer release()
	if err != nil {
		return err
	}
	clock.lap("bundle")
	if err := b.runtime.Go(); err != nil {
		return h.startFailure(handle, err)
	}
	clock.lap("runtime")
	return nil
}

// findPodd finds the process that the runtime left behind.
func (h *Host) findPodd(handle *Handle) error {
	data, err := os.ReadFile(h.pidFile(handle))
	if err != nil {
		return err
	}
	if handle.Pid, err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
		return err
	}
	handle.StartTime = startTime(handle.Pid)
	return nil
}

func limitsOf(r hostproto.Resources) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: r.MemoryBytes, SwapBytes: r.SwapBytes, CPUs: r.CPUs, Pids: r.Pids}
}

// poddWait is how long podd waits to be told which sandbox it is.
const poddWait = "3600000"

// outBacklog is how many connections of the egress process may wait for podd to accept them; podd parks as
// many.
const outBacklog = 128

// poddArguments lists the descriptors podd gets, from 3 on, and the flags that say which is which.
func (b *boot) poddArguments() (flags []string, files []*os.File) {
	pass := func(flag string, file *os.File) {
		if file != nil {
			flags = append(flags, flag, strconv.Itoa(3+len(files)))
			files = append(files, file)
		}
	}
	pass("--listener-fd", b.listener)
	pass("--payload-group-fd", b.group.Payload)
	pass("--oom-events-fd", b.group.OOM)
	pass("--door-fd", b.spare.network.Door)
	pass("--dns-fd", b.spare.network.DNS)
	pass("--dns-tcp-fd", b.spare.network.DNSOverTCP)
	pass("--out-fd", b.out)
	pass("--parent-fd", b.parent)
	return append(flags, "--narrow-kernel-files", "--wait-ms", poddWait), files
}

func (h *Host) pidFile(handle *Handle) string { return filepath.Join(h.runDir(handle), "pid") }

func (h *Host) prepareRuntime(ctx context.Context, handle *Handle, procs []string, files []*os.File) (*launch.Launch, error) {
	program, err := h.program.open(h.runtime.Path)
	if err != nil {
		return nil, err
	}
	output, err := os.OpenFile(filepath.Join(h.runDir(handle), "podd.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	argv := []string{h.runtime.Path, "--root", filepath.Join(h.home, "run/runtime"), "--cgroup-manager=disabled", "run", "--detach", "--no-new-keyring",
		fmt.Sprintf("--preserve-fds=%d", len(files)), "--pid-file", h.pidFile(handle), "--bundle", filepath.Join(h.runDir(handle), "bundle"), handle.group()}
	return launch.Prepare(ctx, program, procs, argv, files, output)
}

// writeBundle completes spec and writes it down. release gives back what the runtime needs until it has run.
func (h *Host) writeBundle(handle *Handle, spec bundle.Spec) (release func(), err error) {
	bootName := "boot-" + handle.ID
	release = func() { h.stage.RemoveFile(bootName) }
	if spec.BootID, err = h.stage.File(bootName, []byte(newUUID()+"\n"), 0o444); err != nil {
		return release, err
	}
	dir := filepath.Join(h.runDir(handle), "bundle")
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
func (h *Host) startFailure(handle *Handle, err error) error {
	id := handle.ID
	said, _ := os.ReadFile(filepath.Join(h.runDir(handle), "podd.log"))
	said = bytes.TrimSpace(said)
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	if bytes.Contains(said, []byte("No space left on device")) {
		return hostproto.Errorf(hostproto.ResourceExhausted, "disk.full", "start of %s: %s", id, said)
	}
	return hostproto.Errorf(hostproto.Internal, "runtime.failed", "start of %s: %v: %s", id, err, said)
}

// fileLimit never asks for more than podhost's own limit: raising one takes a capability that podhost may
// lack.
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
