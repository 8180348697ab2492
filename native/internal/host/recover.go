package host

import (
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"
)

// recover brings what an earlier podhost left into a known state: sandboxes that run are watched again, starts and removals
// that were cut off are undone or finished, and groups without a sandbox go.
func (h *Host) recover() error {
	if err := os.Chmod(h.home, 0o700); err != nil {
		return err
	}
	bases := map[string]bool{}
	for _, id := range h.sandboxIDs() {
		handle, err := h.load(id)
		if err != nil {
			h.log.Printf("%s: %v", id, err)
			continue
		}
		if handle == nil {
			handle = &Handle{ID: id, State: stateCreating}
		}
		if handle.State != stateRunning {
			if err := h.remove(handle, newStopwatch()); err != nil {
				h.log.Printf("%s: recover: %v", id, err)
			}
			continue
		}
		bases[handle.Base] = true
		l, err := h.adopt(id, handle.Pid, handle.StartTime, handle.DeadlineMs)
		if err != nil {
			return err
		}
		if l == nil {
			h.foundDead(handle)
		}
	}
	for _, id := range h.cgroups.IDs() {
		if _, err := os.Lstat(h.dir(id)); hostproto.IsID(id) && os.IsNotExist(err) {
			h.cgroups.Kill(id)
			if err := h.cgroups.Remove(id); err != nil {
				h.log.Printf("%s: orphan group: %v", id, err)
			}
		}
	}
	if err := h.layers.Sweep(); err != nil {
		return err
	}
	h.sweepSockets()
	h.bases = bases
	return nil
}

// prepare readies the `host` root while podhost already serves; a sandbox that comes at once waits for it.
func (h *Host) prepare() error {
	if err := h.builder.Prepare(h.bases); err != nil {
		return err
	}
	return h.refresh()
}

// refresh looks for private files of the host again when it is time to.
func (h *Host) refresh() error {
	if !h.builder.IsStale() {
		return nil
	}
	return h.builder.Refresh(h.stopping)
}

func (h *Host) foundDead(handle *Handle) {
	if _, there := h.loadExit(handle.ID); there {
		return
	}
	now := time.Now().UnixMilli()
	exit := Exit{AtMs: now, OOMKilled: h.cgroups.Usage(handle.ID).OOMKills > 0}
	exit.Expired = !exit.OOMKilled && handle.DeadlineMs > 0 && handle.DeadlineMs <= now
	if err := h.saveExit(handle.ID, exit); err != nil {
		h.log.Printf("%s: exit.json: %v", handle.ID, err)
	}
}

func (h *Host) sweepSockets() {
	dir := filepath.Join(h.home, "run/s")
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		id := entry.Name()[:len(entry.Name())-len(filepath.Ext(entry.Name()))]
		if _, err := os.Lstat(h.dir(id)); os.IsNotExist(err) {
			safefs.RemoveTree(dir, entry.Name())
		}
	}
}

// sandboxIDs lists the directories, sorted.
func (h *Host) sandboxIDs() []string {
	entries, _ := os.ReadDir(filepath.Join(h.home, "sandboxes"))
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && hostproto.IsID(entry.Name()) {
			ids = append(ids, entry.Name())
		}
	}
	return ids
}
