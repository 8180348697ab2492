package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// Destroy ends a sandbox and removes every trace of it. It succeeds if the sandbox does not exist.
func (s *Sandboxes) Destroy(id string) (any, error) {
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: destroy: %s", id, clock) }()
	handle, err := s.load(id)
	if err != nil {
		// The pid in a damaged handle cannot be trusted. Groups and directory are found by name.
		s.Log.Printf("%s: %v", id, err)
	}
	if handle == nil {
		handle = &Handle{ID: id, Volume: s.Pool.Locate(pool.Sandboxes, id).IsVolume}
	} else {
		handle.State = stateDestroying
		if err := s.save(handle); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Log.Printf("%s: %v", id, err)
		}
	}
	if err := s.remove(handle, clock); err != nil {
		return nil, err
	}
	if s.Pool.CheckSpace() != nil {
		// The caller destroys sandboxes to get space, and removed files keep theirs until they are unmounted.
		s.AwaitUnmounts()
		clock.Lap("unmount")
	}
	return map[string]any{}, nil
}

// remove removes everything of a sandbox. The directory with the handle goes last, so that the sandbox can be
// found until then.
func (s *Sandboxes) remove(handle *Handle, clock *stopwatch.Stopwatch) error {
	if err := s.end(handle, clock); err != nil {
		return err
	}
	s.disk.forget(handle.ID)
	if err := s.Pool.Remove(handle.files()); err != nil {
		return err
	}
	clock.Lap("volume")
	if handle.Saved != nil {
		if err := s.removeMemory(handle); err != nil {
			return err
		}
	}
	err := s.removeDir(handle.ID)
	clock.Lap("files")
	return err
}

// end ends the sandbox's processes and removes its mounts, groups and sockets. The files stay.
func (s *Sandboxes) end(handle *Handle, clock *stopwatch.Stopwatch) error {
	run := s.runOf(handle)
	run.CloseParent()
	if err := s.killAll(handle, run); err != nil {
		return err
	}
	clock.Lap("kill")
	s.Launcher.Stage.ReleaseRoot(handle.ID)
	err := s.Launcher.Remove(run, clock)
	if run.UIDBase == 0 {
		handle.clearIDs()
	}
	return err
}

// unmountLater keeps the mounts of a sandbox until its processes have ended and no caller waits. Otherwise
// the first process unmounts some seventy of them before it ends, and the caller waits for that. The kernel
// unmounts them too if podhost is killed.
func (s *Sandboxes) unmountLater(handle *Handle) {
	pid := handle.Pid
	mounts, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		// The process has ended, and unmounts them itself.
		return
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		unix.Close(mounts)
		return
	}
	s.unmounts.Begin()
	// A sandbox that only stops may start again soon, with the same files.
	mayWait := handle.State == stateDestroying
	s.task(func() {
		processes.WaitEnded(process, boot.KillTimeout)
		unix.Close(process)
		if mayWait {
			s.unmounts.Add(mounts)
		} else {
			s.unmounts.Remove(mounts)
		}
	})
}

// AwaitUnmounts returns when no ended sandbox has mounts any more. It needs no lock.
func (s *Sandboxes) AwaitUnmounts() { s.unmounts.Await() }

// killAll returns when no process of the sandbox is left.
func (s *Sandboxes) killAll(handle *Handle, run *boot.Run) error {
	s.mu.Lock()
	l := s.live[handle.ID]
	isFrozen := handle.State == statePaused
	if l != nil {
		l.destroying = true
		isFrozen = isFrozen || l.paused
	}
	s.mu.Unlock()
	if l == nil {
		// A start was interrupted, or the first process has ended. In both cases all that is left is in the
		// groups.
		s.Launcher.KillUnwatched(run)
		return nil
	}
	s.unmountLater(handle)
	if err := l.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", handle.ID, err)
	}
	if isFrozen {
		// A v1 freezer delivers the signal only after a thaw.
		if err := s.Launcher.Cgroups.Thaw(run.Name); err != nil {
			return fmt.Errorf("thaw %s: %w", handle.ID, err)
		}
	}
	deadline := time.NewTimer(boot.KillTimeout)
	defer deadline.Stop()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-l.done:
			return nil
		case <-again.C:
			s.Launcher.Cgroups.Kill(run.Name)
		case <-deadline.C:
			return hostproto.Errorf(hostproto.DeadlineExceeded, "sandbox.lingers",
				"a process of sandbox %s still runs %v after it was killed", handle.ID, boot.KillTimeout).
				WithHint("the process waits in the kernel for a disk or a network file system; try again later")
		}
	}
}
