package lifecycle

import (
	"os"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/stopwatch"
)

const (
	// finishWait is how long podhost waits at its start for interrupted operations to be finished. After that
	// they continue in the background, each under its sandbox's lock.
	finishWait = 5 * time.Second
	// maxFinishing is how many of them run at a time.
	maxFinishing = 8
)

// finishInterrupted finishes or undoes interrupted operations, and kills groups that belong to no sandbox.
func (s *Sandboxes) finishInterrupted(interrupted []*Handle, unused []string) {
	var work []func()
	for _, handle := range interrupted {
		id, found := handle.ID, handle
		work = append(work, func() { s.finish(id, found) })
	}
	for _, name := range unused {
		group := name
		work = append(work, func() { s.removeUnusedGroup(group) })
	}
	running, done := make(chan struct{}, maxFinishing), make(chan struct{}, len(work))
	for _, one := range work {
		run := one
		s.task(func() {
			running <- struct{}{}
			run()
			<-running
			done <- struct{}{}
		})
	}
	deadline := time.NewTimer(finishWait)
	defer deadline.Stop()
	for range work {
		select {
		case <-done:
		case <-deadline.C:
			s.Log.Printf("recover: some interrupted operations are still being finished")
			return
		}
	}
}

// finish stops a sandbox that was being stopped or started, and removes one that was being created or
// destroyed. One that was being restored is saved as before. While it waits for the lock, another request may
// do the same. found stands in for a handle that was never written.
func (s *Sandboxes) finish(id string, found *Handle) {
	defer s.lock(id)()
	handle, err := s.load(id)
	if handle == nil && err == nil {
		handle = found
	}
	if err == nil && handle.State == stateSaved {
		err = s.endSaved(handle)
	} else if err == nil && !s.isAlive(id) {
		switch handle.State {
		case stateRestoring:
			// The supervisor has ended with the earlier podhost. The run has no name in the record, so what is left
			// of it belongs to nothing and is removed elsewhere.
			err = s.backToSaved(handle)
		case stateStopping, stateStarting:
			err = s.bringToStop(handle, "recover")
		case stateCreating, stateDestroying:
			err = s.remove(handle, stopwatch.New())
		}
	}
	if err != nil {
		s.Log.Printf("%s: recover: %v", id, err)
	}
}

// unusedGroups returns the control groups that belong to no sandbox.
func (s *Sandboxes) unusedGroups(used map[string]bool) []string {
	var unused []string
	for _, name := range s.Launcher.Cgroups.IDs() {
		if hostproto.IsID(name) && !used[name] {
			unused = append(unused, name)
		}
	}
	return unused
}

// removeUnusedGroup does nothing if a sandbox with that name was created meanwhile.
func (s *Sandboxes) removeUnusedGroup(name string) {
	defer s.lock(name)()
	if _, err := os.Lstat(s.dir(name)); err == nil {
		return
	}
	s.Launcher.Cgroups.Kill(name)
	if err := s.Launcher.Cgroups.Remove(name); err != nil {
		s.Log.Printf("%s: unused group: %v", name, err)
	}
}
