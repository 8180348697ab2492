package host

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// A shell is a sandbox without files, limits or a name: namespaces, groups and filter are made, podd runs in
// a root with nothing in it. A sandbox that starts takes one and has its own root swapped in. A shell has run
// nothing before, and is never used again.

// shellPoints are what the runtime mounts in a shell and what moves to the sandbox's root.
var shellPoints = []string{"/proc", "/dev", "/sys", "/tmp", "/run"}

// makeShell starts one. Whatever fails, nothing stays behind.
func (h *Host) makeShell() (*Handle, error) {
	name := "sh" + rootfs.RandomHex(7)
	shell := &Handle{ID: name, Shell: name, State: stateCreating}
	if err := h.bootShell(shell); err != nil {
		h.discardShell(shell)
		return nil, err
	}
	return shell, nil
}

func (h *Host) bootShell(shell *Handle) error {
	if err := os.Mkdir(h.runDir(shell), 0o700); err != nil {
		return err
	}
	root, err := h.stage.Blank(h.builder.Podd, shellPoints)
	if err != nil {
		return err
	}
	clock := newStopwatch()
	b, err := h.prepareBoot(shell, cgroup.Limits{}, clock)
	if err != nil {
		return err
	}
	defer b.close()
	if err := h.boot(b, shell, bundle.Spec{Hostname: "sandbox", Root: root}, hostproto.Resources{Files: mostFiles}, clock); err != nil {
		return err
	}
	if err := h.findPodd(shell); err != nil {
		return err
	}
	// podd changes its own mounts before it serves. Only then may its root be swapped.
	return h.awaitPodd(shell)
}

// awaitPodd returns when podd serves, or at once when it has ended: its socket would only run into a timeout.
func (h *Host) awaitPodd(shell *Handle) error {
	answered := make(chan error, 1)
	go func() {
		_, err := askPodd(h.socket(shell))
		answered <- err
	}()
	for {
		select {
		case err := <-answered:
			return err
		case <-time.After(20 * time.Millisecond):
			if startTime(shell.Pid) != shell.StartTime {
				return fmt.Errorf("its podd has ended")
			}
		}
	}
}

func (h *Host) discardShell(shell *Handle) {
	if err := h.end(shell, newStopwatch()); err != nil {
		h.log.Printf("shell %s: %v", shell.Shell, err)
	}
}

// startInShell gives the sandbox the shell to live in. A shell that turns out to be of no use costs time and
// nothing else.
func (h *Host) startInShell(shell, handle *Handle, args hostproto.CreateSandbox, files rootfs.Files, clock *stopwatch) error {
	user, err := shell.userNamespace()
	if err != nil {
		h.log.Printf("%s: shell %s: %v", handle.ID, shell.Shell, err)
		h.discardShell(shell)
		return h.startWithoutShell(handle, args, files, clock)
	}
	defer user.Close()
	root, err := h.mountRoot(handle, args, files, h.rootIDs(shell.ids, user))
	if err != nil {
		h.discardShell(shell)
		return err
	}
	clock.lap("mounts")
	if err := h.occupy(shell, handle, args, root); err != nil {
		h.log.Printf("%s: shell %s: %v", handle.ID, shell.Shell, err)
		return h.startAfterShell(shell, handle, args, root, clock)
	}
	clock.lap("swap")
	handle.setIDs(shell.ids)
	handle.Shell, handle.Pid, handle.StartTime, handle.Network = shell.Shell, shell.Pid, shell.StartTime, shell.Network
	handle.parent = shell.parent
	return h.watched(handle)
}

// detach lets podd live on without podhost. INVARIANT: the next podhost would find the sandbox. A podd that
// has ended is for those who watch it.
func (handle *Handle) detach() {
	handle.parent.Write([]byte{1})
	handle.closeParent()
}

// closeParent ends podd, unless it was detached.
func (handle *Handle) closeParent() {
	if handle.parent != nil {
		handle.parent.Close()
	}
}

// startAfterShell starts the sandbox on a root that was mounted with the ids of a shell: they become the
// sandbox's when the shell has ended.
func (h *Host) startAfterShell(shell, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted, clock *stopwatch) error {
	left := shell.ids
	shell.UIDBase = 0
	if err := h.end(shell, newStopwatch()); err != nil {
		return err
	}
	handle.setIDs(left)
	b, err := h.prepareBoot(handle, limitsOf(args.Resources), clock)
	if err != nil {
		return err
	}
	return h.startCold(b, handle, args, root, clock)
}

// userNamespace opens the shell's, as long as its podd lives.
func (handle *Handle) userNamespace() (*os.File, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", handle.Pid))
	if err == nil && startTime(handle.Pid) != handle.StartTime {
		file.Close()
		err = fmt.Errorf("its podd has ended")
	}
	return file, err
}

// occupy puts the sandbox's limits, name and root on a shell, in this order: nothing of the sandbox is there
// before its limits are.
func (h *Host) occupy(shell, handle *Handle, args hostproto.CreateSandbox, root rootfs.Mounted) error {
	if startTime(shell.Pid) != shell.StartTime {
		return fmt.Errorf("its podd has ended")
	}
	h.setLimits(handle, h.cgroups.Limit(shell.group(), limitsOf(args.Resources)), args.Resources)
	if err := limitFiles(shell.Pid, args.Resources.Files); err != nil {
		return err
	}
	if err := limitProcesses(handle, shell.Pid, args.Resources.Pids); err != nil {
		return err
	}
	return mount.Swap{Pid: shell.Pid, Root: root.Path, Keep: shellPoints, Hostname: args.Hostname,
		Sizes: map[string]int64{"/tmp": args.Resources.TmpBytes, "/dev/shm": args.Resources.ShmBytes}}.Do()
}

// mostFiles is what a shell may open until it is known what it becomes.
const mostFiles = 1 << 20

// limitFiles lowers what podd and all that it starts may open.
func limitFiles(pid int, asked int64) error {
	files, _ := fileLimit(asked)
	if most, _ := fileLimit(mostFiles); files == 0 || files == most {
		return nil
	}
	return lower(pid, unix.RLIMIT_NOFILE, files)
}

// limitProcesses is the stand-in where no cgroup counts: the sandbox's user namespace does, for each user in
// it. The runtime cannot be asked for this limit. It would set it on itself, outside, where podhost and all
// the sandboxes count as one user's.
func limitProcesses(handle *Handle, podd int, asked int64) error {
	if handle.Limits["pids"].Level != "soft" {
		return nil
	}
	return lower(podd, unix.RLIMIT_NPROC, uint64(asked))
}

func lower(pid, what int, to uint64) error {
	limit := unix.Rlimit{Cur: to, Max: to}
	if err := mount.AsOwnerOf(pid, func() error { return unix.Prlimit(pid, what, &limit, nil) }); err != nil {
		return fmt.Errorf("prlimit: %w", err)
	}
	return nil
}

// sweepShells removes what an earlier podhost left of shells that no sandbox lives in; their processes ended
// with it.
func (h *Host) sweepShells(used map[string]bool) {
	dir := filepath.Join(h.home, "shells")
	for _, name := range idsIn(dir) {
		if used[name] {
			continue
		}
		for _, parent := range []string{filepath.Join(h.home, "run/runtime"), dir} {
			if err := safefs.RemoveTree(parent, name); err != nil {
				h.log.Printf("shell %s: %v", name, err)
			}
		}
	}
}
