// Package sigstop holds the processes of a sandbox still by signals, where no control group can freeze them. Programs can tell: one that
// handles SIGCONT is told when it goes on, and a few system calls return early.
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
	// restTimeout is how long everything may take to come to rest.
	restTimeout = 3 * time.Second
	// kernelPatience is how long a thread may be in the kernel's hands before that counts as rest: it stops before it runs any instruction of
	// its own. A program that waits for its vfork does so until that goes on.
	kernelPatience = 300 * time.Millisecond
)

// Stop returns when nothing below the first process of a sandbox runs any more, nor that one. What somebody inside had stopped already is
// written to the file first, and stays so. If the file is there, an earlier Stop has written it. After an error everything runs.
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
			return fmt.Errorf("process %d is gone", pid)
		}
		// Parents first: none of them sees a child stop, as a shell would say aloud.
		moved, err := stopEach(all, deadline)
		// A process that was stopped late may have made another, or continued one. Processes that continue each other
		// without end are given up at the deadline.
		if err == nil && moved && time.Now().After(deadline) {
			err = fmt.Errorf("the processes did not come to rest in %v", restTimeout)
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

// remember writes down what stands still already.
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

// Continue lets everything run again but what somebody inside had stopped. Without the file nothing was stopped from here.
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
	// Children first: their parents find them running.
	for i := len(all) - 1; i >= 0; i-- {
		if p := all[i]; !keep[p.ID] {
			if err := signal(p, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	return os.Remove(file)
}

// stop returns when the process is at rest, and whether it was not before.
func stop(p proctree.Process, deadline time.Time) (moved bool, err error) {
	if stopped, _ := p.AtRest(); stopped {
		return false, nil
	}
	if err := signal(p, unix.SIGSTOP); err != nil {
		return false, err
	}
	patient := time.Now().Add(kernelPatience)
	for wait := 20 * time.Microsecond; ; wait *= 2 {
		stopped, waiting := p.AtRest()
		if stopped {
			return true, nil
		}
		if waiting && time.Now().After(patient) {
			return false, nil
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("a process did not come to rest in %v", restTimeout)
		}
		if wait > 5*time.Millisecond {
			wait = 5 * time.Millisecond
		}
		time.Sleep(wait)
	}
}

// signal reaches this process and no later one with its pid. One that is gone needs none.
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
