package host

import (
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"
)

// recover brings what an earlier podhost left into a known state: sandboxes that run are watched again, starts, stops and removals
// that were cut off are undone or finished, and groups, files and snapshots that belong to nobody go.
func (h *Host) recover() error {
	if err := os.Chmod(h.home, 0o700); err != nil {
		return err
	}
	if h.hasEntries() {
		// What fails is logged, and said to whoever needs the pool.
		h.pool.Open()
	}
	bases, groups := map[string]bool{}, map[string]bool{}
	var half []*Handle
	for _, id := range h.sandboxIDs() {
		handle, err := h.load(id)
		if err != nil {
			h.log.Printf("%s: %v", id, err)
			groups[id] = true
			continue
		}
		if handle == nil {
			handle = &Handle{ID: id, State: stateCreating, Volume: h.pool.Found(pool.Sandboxes, id).IsVolume}
		}
		h.ids.Keep(handle.UIDBase)
		if isHalfDone, err := h.recoverOne(handle); err != nil {
			return err
		} else if isHalfDone {
			half = append(half, handle)
		}
		bases[handle.Base], groups[handle.group()] = true, true
	}
	h.settleAll(half, h.orphanGroups(groups))
	h.ids.Recover()
	if err := h.layers.Sweep(); err != nil {
		return err
	}
	if h.hasEntries() {
		h.recoverSnapshots()
	}
	h.sweepShells(groups)
	h.sweepSockets(groups)
	h.bases = bases
	return nil
}

// hasEntries reports whether there may be something in the pool. If not, it is opened while podhost serves already: making one takes
// a moment.
func (h *Host) hasEntries() bool {
	_, err := os.Lstat(filepath.Join(h.home, "pool.img"))
	_, other := os.Lstat(filepath.Join(h.home, "pool"))
	return err == nil || other == nil || len(h.snapshotIDs()) > 0
}

// recoverOne makes true what the handle says, unless that takes a while: then it is half done. An error is podhost's own trouble; a sandbox's
// is logged.
func (h *Host) recoverOne(handle *Handle) (isHalfDone bool, err error) {
	switch handle.State {
	case stateRunning, statePaused:
		l, err := h.adopt(handle)
		if err != nil {
			return false, err
		}
		switch {
		case l == nil:
			h.foundDead(handle)
		case handle.State == statePaused:
			err = h.freeze(handle)
		default:
			// A snapshot of it may have been under way.
			err = h.thaw(handle)
		}
		if err != nil {
			h.log.Printf("%s: recover: %v", handle.ID, err)
		}
	case stateStopped:
	default:
		return true, nil
	}
	if h.hasLostFiles(handle) {
		h.log.Printf("%s: its files are gone", handle.ID)
	}
	return false, nil
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
	exit := Exit{AtMs: now, OOMKilled: h.cgroups.Usage(handle.group()).OOMKills > 0}
	exit.Expired = !exit.OOMKilled && handle.DeadlineMs > 0 && handle.DeadlineMs <= now
	if err := h.saveExit(handle.ID, exit); err != nil {
		h.log.Printf("%s: exit.json: %v", handle.ID, err)
	}
}

// sweepSockets removes those of nobody; groups names whose are somebody's.
func (h *Host) sweepSockets(groups map[string]bool) {
	dir := filepath.Join(h.home, "run/s")
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); !groups[name[:len(name)-len(filepath.Ext(name))]] {
			safefs.RemoveTree(dir, entry.Name())
		}
	}
}

// sandboxIDs lists the directories, sorted.
func (h *Host) sandboxIDs() []string { return idsIn(filepath.Join(h.home, "sandboxes")) }

func idsIn(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && hostproto.IsID(entry.Name()) {
			ids = append(ids, entry.Name())
		}
	}
	return ids
}
