package boot

import (
	"errors"
	"os"
	"time"

	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// KillTimeout is how long the processes of a killed sandbox may take to end. A process that waits in the
// kernel ends when the kernel returns from the call.
const KillTimeout = 10 * time.Second

// End ends a run that nobody watches, and removes everything of it.
func (l *Launcher) End(run *Run, clock *stopwatch.Stopwatch) error {
	run.CloseParent()
	if run.ready != nil {
		run.ready.Close()
	}
	if run.ready != nil || run.Awaits {
		l.Stage.RemoveFile(run.bootID)
	}
	l.KillUnwatched(run)
	clock.Lap("kill")
	return l.Remove(run, clock)
}

// KillUnwatched kills by the control groups, and by the recorded pid if that is still the same process. A
// podd whose pid was not recorded yet ends by itself when podhost ends.
func (l *Launcher) KillUnwatched(run *Run) {
	l.Cgroups.Kill(run.Name)
	if run.Pid <= 1 {
		return
	}
	pidfd, err := unix.PidfdOpen(run.Pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	switch processes.StartTime(run.Pid) {
	case run.StartTime:
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	case 0:
		// It has ended, or its first thread has. Nothing else collects the podd of a shell.
	default:
		return
	}
	processes.WaitEnded(pidfd, KillTimeout)
	processes.Collect(pidfd)
}

// Remove removes the groups, the sockets and the log of a run whose processes have ended, and frees its ids.
func (l *Launcher) Remove(run *Run, clock *stopwatch.Stopwatch) error {
	if err := l.Cgroups.Remove(run.Name); err != nil {
		return err
	}
	clock.Lap("cgroups")
	switch run.Runtime {
	case GVisor:
		l.removeGVisor(run)
	case Machine:
		if err := l.removeMachine(run); err != nil {
			return err
		}
	}
	// Nothing is left that the kernel could still charge to these ids.
	l.IDs.Release(run.UIDBase)
	run.SetIDs(nil)
	for _, path := range []string{run.Socket, run.Out, run.Control, run.Log} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
