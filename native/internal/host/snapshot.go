package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"
)

// newSnapshot answers with the snapshot of an earlier call, or begins one. The caller either finishes it or removes it.
func (h *Host) newSnapshot(s *Snapshot) (made *Snapshot, err error) {
	made, err = h.loadSnapshot(s.ID)
	if err != nil {
		return nil, err
	}
	if made != nil {
		if made.Owner != s.Owner || made.Sandbox != s.Sandbox || (s.Sandbox == "" && !made.Root.Equal(s.Root)) {
			return nil, hostproto.Errorf(hostproto.AlreadyExists, "snapshot.exists", "snapshot %s exists", s.ID)
		}
		return made, nil
	}
	if err := h.pool.Room(); err != nil {
		return nil, err
	}
	files, err := h.pool.Entry(pool.Snapshots, s.ID)
	if err != nil {
		return nil, err
	}
	s.Volume = files.IsVolume
	s.CreatedMs = time.Now().UnixMilli()
	if err := h.dropSnapshot(s.files()); err != nil {
		return nil, err
	}
	return nil, os.Mkdir(h.snapshotDir(s.ID), 0o700)
}

func (h *Host) finishSnapshot(s *Snapshot) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return safefs.WriteFileSynced(filepath.Join(h.snapshotDir(s.ID), "snapshot.json"), data, 0o600)
}

// dropSnapshot removes what there is of a snapshot: first what is known about it, so that half of it is never taken for all.
func (h *Host) dropSnapshot(files pool.Entry) error {
	if err := os.Remove(filepath.Join(h.snapshotDir(files.ID), "snapshot.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := h.pool.Remove(files); err != nil {
		return err
	}
	return safefs.RemoveTree(filepath.Join(h.home, "snapshots"), files.ID)
}

// createSnapshot takes the sandbox's files as at one moment. What is dirty is written out before, so that the moment is short.
func (h *Host) createSnapshot(args hostproto.CreateSnapshot) (any, error) {
	s := &Snapshot{ID: args.ID, Owner: args.Owner, Sandbox: args.Sandbox}
	if made, err := h.newSnapshotOf(s); made != nil || err != nil {
		return made, err
	}
	handle, err := h.existing(args.Sandbox)
	if err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	s.Root = handle.Root
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: snapshot of %s: %s", s.ID, s.Sandbox, clock) }()
	if err := h.copyFiles(handle, s, clock); err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	if err := h.syncCopy(handle, s, clock); err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	s.SizeBytes = h.ownBytes(handle)
	clock.lap("size")
	if err := h.finishSnapshot(s); err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	clock.lap("write")
	h.hold(handle, s)
	clock.lap("hold")
	return s.view(), nil
}

// newSnapshotOf is newSnapshot with the answer ready.
func (h *Host) newSnapshotOf(s *Snapshot) (any, error) {
	made, err := h.newSnapshot(s)
	if made == nil || err != nil {
		return nil, err
	}
	return made.view(), nil
}

func (h *Host) undoSnapshot(s *Snapshot, err error) error {
	if undo := h.dropSnapshot(s.files()); undo != nil {
		h.log.Printf("%s: undo: %v", s.ID, undo)
	}
	return err
}

// copyFiles freezes a sandbox that runs. Whatever happens, it runs again afterwards; if podhost is killed meanwhile, the next one thaws it.
func (h *Host) copyFiles(handle *Handle, s *Snapshot, clock *stopwatch) error {
	atomic.AddInt32(&h.writing, 1)
	defer atomic.AddInt32(&h.writing, -1)
	if handle.Volume {
		if err := h.pool.SyncEntry(handle.files()); err != nil {
			return err
		}
		clock.lap("sync")
	}
	if handle.State != statePaused && h.isAlive(handle.ID) {
		if err := h.freeze(handle); err != nil {
			h.thaw(handle)
			return err
		}
		clock.lap("freeze")
		defer func() {
			if err := h.thaw(handle); err != nil {
				h.log.Printf("%s: thaw: %v", handle.ID, err)
			}
			clock.lap("thaw")
		}()
	}
	if h.pool.Clones(handle.files(), s.files()) {
		// Nothing in it changes any more, so this is behind every number it has given out.
		s.NextNumber = h.pool.NextNumber(handle.files())
	}
	err := h.pool.Clone(handle.files(), s.files(), 0)
	clock.lap("clone")
	return err
}

// syncCopy writes out a snapshot that is a copy; the kernel does so itself with one that is not.
func (h *Host) syncCopy(handle *Handle, s *Snapshot, clock *stopwatch) error {
	if h.pool.Clones(handle.files(), s.files()) {
		return nil
	}
	defer clock.lap("sync")
	return h.pool.SyncEntry(s.files())
}

// takeSnapshot gives a new sandbox a snapshot's files.
func (h *Host) takeSnapshot(handle *Handle, args hostproto.CreateSandbox) error {
	defer h.locks.lock("snapshot " + args.Snapshot)()
	s, err := h.loadSnapshot(args.Snapshot)
	if err != nil {
		return err
	}
	if s == nil {
		return snapshotAbsent(args.Snapshot)
	}
	if err := h.reachable(s); err != nil {
		return err
	}
	if !args.Root.Extends(s.Root) {
		return hostproto.Errorf(hostproto.InvalidArgument, "snapshot.root", "snapshot %s stands on another root", args.Snapshot)
	}
	handle.FromBytes = s.SizeBytes
	if !s.Volume || !handle.Volume {
		atomic.AddInt32(&h.writing, 1)
		defer atomic.AddInt32(&h.writing, -1)
	}
	return h.pool.Clone(s.files(), handle.files(), args.Resources.DiskBytes)
}

// removeSnapshot refuses while a sandbox or another snapshot stands on it.
func (h *Host) removeSnapshot(id string) (any, error) {
	defer h.locks.lock("snapshot " + id)()
	s, err := h.loadSnapshot(id)
	if err != nil {
		h.log.Printf("%s: %v", id, err)
	}
	files := h.pool.Found(pool.Snapshots, id)
	if s != nil {
		files = s.files()
		if _, err := h.pool.Open(); err != nil && s.Volume {
			// Nothing is forgotten whose files cannot be removed.
			return nil, err
		}
	}
	if err := h.unlist(id); err != nil {
		return nil, err
	}
	return map[string]any{}, h.dropSnapshot(files)
}

// originOf is the sandbox that a snapshot was taken of; "" if that is not known.
func (h *Host) originOf(snapshot string) string {
	s, err := h.loadSnapshot(snapshot)
	if err != nil || s == nil {
		return ""
	}
	return s.Sandbox
}
