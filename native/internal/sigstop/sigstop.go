// Package sigstop freezes the processes of a sandbox by signals, if no control group can freeze them.
// Programs can notice: one that handles SIGCONT gets it at the end, and a few system calls return early.
package sigstop

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"agentpod/native/internal/proctree"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

const (
	// restTimeout is how long all processes may take to stop.
	restTimeout = 3 * time.Second
	// kernelWait is how long a thread may stay in the kernel before it counts as stopped: it stops before it
	// runs another instruction of its own. A program that waits for its vfork waits until that continues.
	kernelWait = 300 * time.Millisecond
)

// Stop returns when neither the first process of a sandbox nor anything below it runs any more. It first
// writes to the file which processes were stopped already, so that they stay stopped. If the file exists, an
// earlier Stop has written it. After an error all processes run.
func Stop(pid int, file string) error {
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
		if err := remember(pid, file); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(restTimeout)
	for {
		all := proctree.Descendants(pid)
		if len(all) == 0 {
			return fmt.Errorf("process %d has ended", pid)
		}
		// Parents are stopped first, so that none of them sees a child stop, which a shell would report.
		moved, err := stopEach(all, deadline)
		// A process that was stopped late may have started another, or continued one. If processes continue
		// each other without end, Stop gives up at the deadline.
		if err == nil && moved && time.Now().After(deadline) {
			err = fmt.Errorf("the processes did not stop within %v", restTimeout)
		}
		if err != nil {
			if undo := Continue(pid, file); undo != nil {
				return fmt.Errorf("%w, and then: %v", err, undo)
			}
			return err
		}
		if !moved {
			return nil
		}
	}
}

// stopEach stops the processes in turn and reports whether any of them ran.
func stopEach(all []proctree.Process, deadline time.Time) (moved bool, err error) {
	for _, p := range all {
		stoppedNow, err := stop(p, deadline)
		if err != nil {
			return moved, err
		}
		moved = moved || stoppedNow
	}
	return moved, nil
}

// remember writes which processes are stopped already.
func remember(pid int, file string) error {
	held := []proctree.ID{}
	for _, p := range proctree.Descendants(pid) {
		if p.State == 'T' {
			held = append(held, p.ID)
		}
	}
	data, err := json.Marshal(held)
	if err != nil {
		return err
	}
	return safefs.WriteFileSynced(file, data, 0o600)
}

// Continue lets all processes run again, except those that were stopped before Stop. Without the file Stop
// has not stopped anything.
func Continue(pid int, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var held []proctree.ID
	if err := json.Unmarshal(data, &held); err != nil {
		return err
	}
	keep := map[proctree.ID]bool{}
	for _, id := range held {
		keep[id] = true
	}
	all := proctree.Descendants(pid)
	// Children continue first, so that their parents find them running.
	for i := len(all) - 1; i >= 0; i-- {
		if p := all[i]; !keep[p.ID] {
			if err := signal(p, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	return os.Remove(file)
}

// stop returns when the process is stopped, and whether it ran before.
func stop(p proctree.Process, deadline time.Time) (moved bool, err error) {
	if stopped, _ := p.AtRest(); stopped {
		return false, nil
	}
	if err := signal(p, unix.SIGSTOP); err != nil {
		return false, err
	}
	patient := time.Now().Add(kernelWait)
	for wait := 20 * time.Microsecond; ; wait *= 2 {
		stopped, waiting := p.AtRest()
		if stopped {
			return true, nil
		}
		if waiting && time.Now().After(patient) {
			return false, nil
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("a process did not stop within %v", restTimeout)
		}
		if wait > 5*time.Millisecond {
			wait = 5 * time.Millisecond
		}
		time.Sleep(wait)
	}
}

// signal reaches only this process, and no later one with its pid. It succeeds if the process has ended.
func signal(p proctree.Process, number unix.Signal) error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(fd)
	if now, ok := proctree.Read(p.Pid); !ok || now.ID != p.ID {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, number, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %d: %w", p.Pid, err)
	}
	return nil
}
