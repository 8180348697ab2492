package host

import (
	"os"
	"time"

	"agentpod/native/internal/hostproto"
)

const (
	// settleWait is how long a podhost that starts waits for what an earlier one left half done. It goes on afterwards all the same, under
	// the sandbox's lock.
	settleWait = 5 * time.Second
	// maxSettling bounds how much of it is under way at a time.
	maxSettling = 8
)

// settleAll finishes or undoes what was cut off, and ends groups of nobody.
func (h *Host) settleAll(half []*Handle, orphans []string) {
	var work []func()
	for _, handle := range half {
		id, bare := handle.ID, handle
		work = append(work, func() { h.settle(id, bare) })
	}
	for _, name := range orphans {
		group := name
		work = append(work, func() { h.endOrphan(group) })
	}
	slots, done := make(chan struct{}, maxSettling), make(chan struct{}, len(work))
	for _, one := range work {
		run := one
		h.task(func() {
			slots <- struct{}{}
			run()
			<-slots
			done <- struct{}{}
		})
	}
	deadline := time.NewTimer(settleWait)
	defer deadline.Stop()
	for range work {
		select {
		case <-done:
		case <-deadline.C:
			h.log.Printf("recover: some of what was cut off is still being finished")
			return
		}
	}
}

// settle brings a sandbox that was being stopped or started to a stop, and removes one that was being made or destroyed. By the time its lock is
// free, somebody else may have done so; bare stands for one that has no handle.
func (h *Host) settle(id string, bare *Handle) {
	defer h.locks.lock("sandbox " + id)()
	handle, err := h.load(id)
	if handle == nil && err == nil {
		handle = bare
	}
	if err == nil && !h.isAlive(id) {
		switch handle.State {
		case stateStopping, stateStarting:
			err = h.bringToStop(handle, "recover")
		case stateCreating, stateDestroying:
			err = h.remove(handle, newStopwatch())
		}
	}
	if err != nil {
		h.log.Printf("%s: recover: %v", id, err)
	}
}

// orphanGroups are the sandboxes' groups that no sandbox has.
func (h *Host) orphanGroups(used map[string]bool) []string {
	var orphans []string
	for _, name := range h.cgroups.IDs() {
		if hostproto.IsID(name) && !used[name] {
			orphans = append(orphans, name)
		}
	}
	return orphans
}

// endOrphan leaves the group to a sandbox that was made under its name meanwhile.
func (h *Host) endOrphan(name string) {
	defer h.locks.lock("sandbox " + name)()
	if _, err := os.Lstat(h.dir(name)); err == nil {
		return
	}
	h.cgroups.Kill(name)
	if err := h.cgroups.Remove(name); err != nil {
		h.log.Printf("%s: orphan group: %v", name, err)
	}
}
