package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// KillTimeout is how long the processes of a killed sandbox may take to end. A process that waits in the
// kernel ends when the kernel returns from the call.
const KillTimeout = 10 * time.Second

// End ends a run that nobody watches, and removes everything of it.
func (l *Launcher) End(run *Run, clock *stopwatch.Stopwatch) error {
	run.CloseParent()
	l.KillUnwatched(run)
	clock.Lap("kill")
	return l.Remove(run, clock)
}

// KillUnwatched kills by the control groups. Without groups it kills by the recorded pid, if that is still
// the same process.
func (l *Launcher) KillUnwatched(run *Run) {
	l.Cgroups.Kill(run.Name)
	pid := run.Pid
	if pid == 0 {
		pid, _ = run.writtenPid()
	}
	if pid <= 1 {
		return
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	isOurs := processes.StartTime(pid) == run.StartTime
	if run.StartTime == 0 {
		// The start was interrupted before the start time was recorded, so the program identifies the
		// process.
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		isOurs = program == bundle.PoddPath
	}
	if isOurs {
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		processes.WaitEnded(pidfd, KillTimeout)
		processes.Collect(pidfd)
	}
}

// Remove removes the groups, the runtime's state and the sockets of a run whose processes have ended, and
// frees its ids.
func (l *Launcher) Remove(run *Run, clock *stopwatch.Stopwatch) error {
	if err := l.Cgroups.Remove(run.Name); err != nil {
		return err
	}
	clock.Lap("cgroups")
	// The runtime's `delete` takes eight milliseconds to kill, which is done, and to remove this directory.
	if err := safefs.RemoveTree(filepath.Join(l.Home, "run/runtime"), run.Name); err != nil {
		return err
	}
	// Nothing is left that the kernel could still charge to these ids.
	l.Namespaces.ids.Release(run.UIDBase)
	run.SetIDs(nil)
	for _, socket := range []string{run.Socket, run.Out} {
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
