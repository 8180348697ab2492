package host

import (
	"os"
	"path/filepath"
	"sync/atomic"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/layer"
)

// uppers is how the files of sandboxes and snapshots lie on the disk.
func (h *Host) uppers() layer.Form {
	return layer.Form{Shift: h.stored.Base, IsUpper: true, UserXattr: h.config.Rootless}
}

// exportSnapshot writes a snapshot's files to <home>/tmp. It holds no lock, since it may take minutes; instead it looks again at the end,
// because the files of a snapshot that is removed meanwhile go from under it without an error.
func (h *Host) exportSnapshot(args hostproto.ExportSnapshot) (any, error) {
	s, err := h.loadSnapshot(args.ID)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, snapshotAbsent(args.ID)
	}
	if err := h.reachable(s); err != nil {
		return nil, err
	}
	if err := h.pool.Room(); err != nil {
		return nil, err
	}
	defer h.locks.lock("file " + args.File)()
	path := filepath.Join(h.home, "tmp", args.File)
	written, err := layer.WriteArchive(path, filepath.Join(h.pool.Path(s.files()), "upper"), h.uppers(), h.pool.Room)
	if err != nil {
		return nil, err
	}
	defer h.locks.lock("snapshot " + args.ID)()
	if still, err := h.loadSnapshot(args.ID); err != nil || still == nil || *stamp(still) != *stamp(s) {
		os.Remove(path)
		return nil, snapshotAbsent(args.ID)
	}
	return written, nil
}

type snapshotStamp struct {
	owner, sandbox string
	createdMs      int64
}

// stamp tells a snapshot from a later one of the same id.
func stamp(s *Snapshot) *snapshotStamp { return &snapshotStamp{s.Owner, s.Sandbox, s.CreatedMs} }

// importSnapshot makes a snapshot of a file that exportSnapshot wrote, here or elsewhere.
func (h *Host) importSnapshot(args hostproto.ImportSnapshot) (any, error) {
	s := &Snapshot{ID: args.ID, Owner: args.Owner, Root: args.Root}
	if made, err := h.newSnapshotOf(s); made != nil || err != nil {
		return made, err
	}
	clock := newStopwatch()
	defer func() { h.log.Printf("%s: import: %s", s.ID, clock) }()
	if err := h.fillSnapshot(s, args); err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	clock.lap("unpack")
	if err := h.pool.SyncEntry(s.files()); err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	clock.lap("sync")
	if err := h.finishSnapshot(s); err != nil {
		return nil, h.undoSnapshot(s, err)
	}
	return s.view(), nil
}

func (h *Host) fillSnapshot(s *Snapshot, args hostproto.ImportSnapshot) error {
	for _, digest := range s.Root.Layers {
		if !h.layers.Has(digest) {
			return hostproto.Errorf(hostproto.NotFound, "layer.absent", "layer %s is not here", digest)
		}
	}
	source, err := layer.OpenFile(h.home, args.File)
	if err != nil {
		return err
	}
	defer source.Close()
	atomic.AddInt32(&h.writing, 1)
	defer atomic.AddInt32(&h.writing, -1)
	// At least one byte: none would be no limit.
	if err := h.newEntry(s.files(), s.Root, h.pool.Spare()+1); err != nil {
		return err
	}
	upper := filepath.Join(h.pool.Path(s.files()), "upper")
	if err := os.Mkdir(upper, 0o700); err != nil {
		return err
	}
	if s.SizeBytes, err = layer.ReadUppers(source, args.Digest, upper, h.uppers(), h.pool.Room); err != nil {
		return err
	}
	s.NextNumber = h.pool.NextNumber(s.files())
	return h.pool.Seal(s.files())
}
