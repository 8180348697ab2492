package snapshots

import (
	"os"
	"path/filepath"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/layer"
	"agentpod/native/internal/stopwatch"
)

// machineRuntime is the runtime of virtual machines. The host does not read the file systems that they write,
// so their snapshots are neither exported nor imported.
const machineRuntime = "qemu"

// Export writes a snapshot's files to <home>/tmp. It holds no lock on the snapshot, because it may take
// minutes. If the snapshot is removed meanwhile, its files disappear without an error, so Export looks at the
// record again at the end.
func (st *Store) Export(args hostproto.ExportSnapshot) (any, error) {
	s, err := st.usable(args.ID)
	if err != nil {
		return nil, err
	}
	if s.Runtime == machineRuntime {
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.machine", "snapshot %s is of a virtual machine, whose files cannot be exported", args.ID).
			WithHint("copy files with `agentpod cp`, or use `--isolation gvisor` or `container` for what you export")
	}
	if err := st.Pool.CheckSpace(); err != nil {
		return nil, err
	}
	defer st.Locks.Lock("file " + args.File)()
	path := filepath.Join(st.Home, "tmp", args.File)
	written, err := layer.WriteArchive(path, st.upper(s), st.Layout, st.Pool.CheckSpace)
	if err != nil {
		return nil, err
	}
	defer st.Locks.Lock("snapshot " + args.ID)()
	if still, err := st.Load(args.ID); err != nil || still == nil || identityOf(still) != identityOf(s) {
		os.Remove(path)
		return nil, absent(args.ID)
	}
	return written, nil
}

// An identity distinguishes a snapshot from a later one with the same id.
type identity struct {
	owner, sandbox string
	createdMs      int64
}

func identityOf(s *Snapshot) identity { return identity{s.Owner, s.Sandbox, s.CreatedMs} }

// Import makes a snapshot from a file that Export wrote, here or on another machine.
func (st *Store) Import(args hostproto.ImportSnapshot) (any, error) {
	if args.Runtime == machineRuntime {
		return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.machine", "files cannot be imported into virtual machines").
			WithHint("import the archive on another provider, like `--provider crun`")
	}
	s := &Snapshot{ID: args.ID, Owner: args.Owner, Root: args.Root, Runtime: args.Runtime}
	if made, err := st.begin(s); err != nil {
		return nil, err
	} else if made != nil {
		return made.view(), nil
	}
	clock := stopwatch.New()
	defer func() { st.Log.Printf("%s: import: %s", s.ID, clock) }()
	if err := st.unpack(s, args); err != nil {
		return nil, st.undo(s, err)
	}
	clock.Lap("unpack")
	if err := st.Pool.SyncEntry(s.Files()); err != nil {
		return nil, st.undo(s, err)
	}
	clock.Lap("sync")
	if err := st.save(s); err != nil {
		return nil, st.undo(s, err)
	}
	return s.view(), nil
}

func (st *Store) unpack(s *Snapshot, args hostproto.ImportSnapshot) error {
	for _, digest := range s.Root.Layers {
		if !st.Layers.Has(digest) {
			return hostproto.Errorf(hostproto.NotFound, "layer.absent", "there is no layer %s", digest)
		}
	}
	source, err := layer.OpenFile(st.Home, args.File)
	if err != nil {
		return err
	}
	defer source.Close()
	defer st.startWriting()()
	// At least one byte, because zero means no limit.
	if err := st.NewEntry(s.Files(), s.Root, st.Pool.WritableBytes()+1); err != nil {
		return err
	}
	upper := st.upper(s)
	if err := os.Mkdir(upper, 0o700); err != nil {
		return err
	}
	if s.SizeBytes, err = layer.ReadUppers(source, args.Digest, upper, st.Layout, st.Pool.CheckSpace); err != nil {
		return err
	}
	s.NextNumber = st.Pool.NextNumber(s.Files())
	return st.Pool.Seal(s.Files())
}
