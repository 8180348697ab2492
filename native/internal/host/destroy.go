package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// killTimeout is how long a killed sandbox may take to be gone: a process in the kernel's hands ends when the kernel lets go.
const killTimeout = 10 * time.Second

// destroy ends a sandbox and removes every trace of it. An absent one is success.
func (h *Host) destroy(id string) (any, error) {
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: destroy: %s", id, clock) }()
	handle, err := h.load(id)
	if err != nil {
		// A damaged handle cannot be trusted with a pid; groups and directory can still be found by name.
		h.log.Printf("%s: %v", id, err)
	}
	if handle == nil {
		handle = &Handle{ID: id, Volume: h.pool.Found(pool.Sandboxes, id).IsVolume}
	} else {
		handle.State = stateDestroying
		if err := h.save(handle); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.log.Printf("%s: %v", id, err)
		}
	}
	if err := h.remove(handle, clock); err != nil {
		return nil, err
	}
	return map[string]any{}, nil
}

// remove takes everything of a sandbox away, in an order that keeps it findable until the last step: the directory with the handle
// goes last.
func (h *Host) remove(handle *Handle, clock *stopwatch) error {
	if err := h.end(handle, clock); err != nil {
		return err
	}
	h.disk.forget(handle.ID)
	if err := h.pool.Remove(handle.files()); err != nil {
		return err
	}
	clock.lap("volume")
	err := safefs.RemoveTree(filepath.Join(h.home, "sandboxes"), handle.ID)
	clock.lap("files")
	return err
}

// end takes everything away that lives: processes, mounts, groups, the sockets. The files stay.
func (h *Host) end(handle *Handle, clock *stopwatch) error {
	handle.closeParent()
	if err := h.killAll(handle); err != nil {
		return err
	}
	clock.lap("kill")
	h.stage.ReleaseRoot(handle.ID)
	if err := h.cgroups.Remove(handle.group()); err != nil {
		return err
	}
	clock.lap("cgroups")
	// The runtime's own `delete` does the same in eight milliseconds: kill, which is done, and removing this directory.
	if err := safefs.RemoveTree(filepath.Join(h.home, "run/runtime"), handle.group()); err != nil {
		return err
	}
	// Nothing of it is left that the kernel could charge to anybody.
	h.ids.Release(handle.UIDBase)
	handle.setIDs(nil)
	for _, socket := range []string{h.socket(handle), h.out(handle)} {
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if handle.Shell == "" {
		return nil
	}
	return safefs.RemoveTree(filepath.Join(h.home, "shells"), handle.Shell)
}

// killAll returns when no process of the sandbox is left.
func (h *Host) killAll(handle *Handle) error {
	h.mu.Lock()
	l := h.live[handle.ID]
	frozen := handle.State == statePaused
	if l != nil {
		l.destroying = true
		frozen = frozen || l.paused
	}
	h.mu.Unlock()
	if l == nil {
		// Nobody watches: a start that was cut off, or a process that ended. Both leave at most what the groups hold.
		h.killUnwatched(handle)
		return nil
	}
	if err := l.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", handle.ID, err)
	}
	if frozen {
		// In a v1 freezer, the signal waits for this.
		if err := h.cgroups.Thaw(handle.group()); err != nil {
			return fmt.Errorf("thaw %s: %w", handle.ID, err)
		}
	}
	deadline := time.NewTimer(killTimeout)
	defer deadline.Stop()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-l.done:
			return nil
		case <-again.C:
			h.cgroups.Kill(handle.group())
		case <-deadline.C:
			return hostproto.Errorf(hostproto.DeadlineExceeded, "sandbox.lingers", "sandbox %s is still there %v after it was killed", handle.ID, killTimeout).
				WithHint("a process of it waits in the kernel, for a disk or a network file system; try again later")
		}
	}
}

// killUnwatched ends what nobody watches: by its groups, and, where there are none, by the pid that was written down, if it still
// is that process.
func (h *Host) killUnwatched(handle *Handle) {
	h.cgroups.Kill(handle.group())
	pid := handle.Pid
	if pid == 0 {
		data, _ := os.ReadFile(h.pidFile(handle))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	if pid <= 1 {
		return
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	ours := startTime(pid) == handle.StartTime
	if handle.StartTime == 0 {
		// The start was cut off before the handle had a start time; then the program tells.
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		ours = program == bundle.PoddPath
	}
	if ours {
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		waitEnded(pidfd, killTimeout)
		reap(pidfd)
	}
}
