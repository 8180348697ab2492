package snapshots

import (
	"os"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/memoryimage"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/stopwatch"
)

// A Source is a sandbox whose files are copied into a snapshot.
type Source interface {
	Files() pool.Entry
	Root() hostproto.Root
	Runtime() string
	// Freeze stops every process of a running sandbox and returns how to let them continue. For a sandbox
	// whose processes do not run, thaw is nil.
	Freeze() (thaw func() error, err error)
	// Hold stops every process of a running sandbox so that its memory can be saved.
	Hold() (Held, error)
	// OwnBytes is the size of the sandbox's own files.
	OwnBytes() int64
	// RaiseDiskLimit makes up for the blocks that the new snapshot keeps.
	RaiseDiskLimit(snapshot string)
}

// Held is a sandbox that stands still until its memory is saved, or it is released.
type Held interface {
	// Save writes the memory of a snapshot to a directory. It returns the size of what is elsewhere. The
	// sandbox runs again afterwards.
	Save(snapshot, dir string) (bytes int64, err error)
	Release()
	// Version is that of the program that writes it.
	Version() string
}

// begin returns the snapshot of an earlier call with the same arguments, or begins a new one. The caller
// completes or drops a new one.
func (st *Store) begin(s *Snapshot) (made *Snapshot, err error) {
	made, err = st.Load(s.ID)
	if err != nil {
		return nil, err
	}
	if made != nil {
		if made.Owner != s.Owner || made.Sandbox != s.Sandbox || (s.Sandbox == "" && !made.Root.Equal(s.Root)) {
			return nil, hostproto.Errorf(hostproto.AlreadyExists, "snapshot.exists", "snapshot %s exists already", s.ID)
		}
		return made, nil
	}
	if err := st.Pool.CheckSpace(); err != nil {
		return nil, err
	}
	files, err := st.Pool.Entry(pool.Snapshots, s.ID)
	if err != nil {
		return nil, err
	}
	s.Volume = files.IsVolume
	s.CreatedMs = time.Now().UnixMilli()
	if err := st.drop(s.Files()); err != nil {
		return nil, err
	}
	return nil, os.Mkdir(st.dir(s.ID), 0o700)
}

func (st *Store) undo(s *Snapshot, err error) error {
	if undo := st.drop(s.Files()); undo != nil {
		st.Log.Printf("%s: undo: %v", s.ID, undo)
	}
	return err
}

// Create copies a sandbox's files as they are at one moment. The caller holds the locks of both.
func (st *Store) Create(args hostproto.CreateSnapshot, find func(sandbox string) (Source, error)) (any, error) {
	s := &Snapshot{ID: args.ID, Owner: args.Owner, Sandbox: args.Sandbox}
	if made, err := st.begin(s); err != nil {
		return nil, err
	} else if made != nil {
		return made.view(), nil
	}
	source, err := find(args.Sandbox)
	if err != nil {
		return nil, st.undo(s, err)
	}
	s.Root, s.Runtime = source.Root(), source.Runtime()
	clock := stopwatch.New()
	defer func() { st.Log.Printf("%s: snapshot of %s: %s", s.ID, s.Sandbox, clock) }()
	copied := st.copyFiles
	if args.Memory {
		copied = st.copyWithMemory
	}
	if err := copied(source, s, clock); err != nil {
		return nil, st.undo(s, err)
	}
	if err := st.syncCopy(source, s, clock); err != nil {
		return nil, st.undo(s, err)
	}
	s.SizeBytes = source.OwnBytes()
	clock.Lap("size")
	if err := st.save(s); err != nil {
		return nil, st.undo(s, err)
	}
	clock.Lap("write")
	source.RaiseDiskLimit(s.ID)
	clock.Lap("hold")
	return s.view(), nil
}

// copyFiles freezes a running sandbox. Dirty pages are written out before, so that the freeze is short. The
// sandbox runs again afterwards in every case; if podhost is killed meanwhile, the next podhost thaws it.
func (st *Store) copyFiles(source Source, s *Snapshot, clock *stopwatch.Stopwatch) error {
	defer st.startWriting()()
	files := source.Files()
	if files.IsVolume {
		if err := st.Pool.SyncEntry(files); err != nil {
			return err
		}
		clock.Lap("sync")
	}
	thaw, err := source.Freeze()
	if err != nil {
		return err
	}
	if thaw != nil {
		clock.Lap("freeze")
		defer func() {
			if err := thaw(); err != nil {
				st.Log.Printf("%s: thaw: %v", s.Sandbox, err)
			}
			clock.Lap("thaw")
		}()
	}
	return st.cloneFiles(files, s, clock)
}

// copyWithMemory copies the files and saves the memory of one moment: the sandbox stands still in between.
func (st *Store) copyWithMemory(source Source, s *Snapshot, clock *stopwatch.Stopwatch) error {
	defer st.startWriting()()
	files := source.Files()
	if files.IsVolume {
		if err := st.Pool.SyncEntry(files); err != nil {
			return err
		}
		clock.Lap("sync")
	}
	held, err := source.Hold()
	if err != nil {
		return err
	}
	defer held.Release()
	clock.Lap("hold")
	if err := st.cloneFiles(files, s, clock); err != nil {
		return err
	}
	dir := st.MemoryDir(s.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	elsewhere, err := held.Save(s.ID, dir)
	if err != nil {
		return err
	}
	clock.Lap("memory")
	if s.Memory, err = memoryimage.Seal(dir, held.Version()); err == nil {
		s.Memory.Bytes += elsewhere
	}
	clock.Lap("sync memory")
	return err
}

func (st *Store) cloneFiles(files pool.Entry, s *Snapshot, clock *stopwatch.Stopwatch) error {
	if st.Pool.Clones(files, s.Files()) {
		// The files do not change any more, so this is above every inode number in use.
		s.NextNumber = st.Pool.NextNumber(files)
	}
	err := st.Pool.Clone(files, s.Files(), 0)
	clock.Lap("clone")
	return err
}

// syncCopy writes out a snapshot that is a copy. The kernel does that itself for a clone.
func (st *Store) syncCopy(source Source, s *Snapshot, clock *stopwatch.Stopwatch) error {
	if st.Pool.Clones(source.Files(), s.Files()) {
		return nil
	}
	defer clock.Lap("sync")
	return st.Pool.SyncEntry(s.Files())
}

// CopyTo gives a new sandbox the files of a snapshot, and returns their size.
func (st *Store) CopyTo(files pool.Entry, args hostproto.CreateSandbox) (bytes int64, err error) {
	defer st.Locks.Lock("snapshot " + args.Snapshot)()
	s, err := st.usable(args.Snapshot)
	if err != nil {
		return 0, err
	}
	if !args.Root.Extends(s.Root) {
		return 0, hostproto.Errorf(hostproto.InvalidArgument, "snapshot.root", "snapshot %s belongs to a different root", args.Snapshot)
	}
	if !s.Volume || !files.IsVolume {
		defer st.startWriting()()
	}
	return s.SizeBytes, st.Pool.Clone(s.Files(), files, args.Resources.DiskBytes)
}
