package lifecycle

import (
	"errors"
	"path/filepath"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"
)

// changesView is what changed below a directory since the sandbox was made from a snapshot. If Known is
// false, the caller has to look at the files inside.
type changesView struct {
	Snapshot string   `json:"snapshot"`
	Known    bool     `json:"known"`
	Paths    []string `json:"paths"`
}

// Changes lists what may have changed in a directory inside a sandbox. The caller holds the sandbox's lock.
func (s *Sandboxes) Changes(args hostproto.SandboxPath) (any, error) {
	handle, err := s.existing(args.ID)
	if err != nil {
		return nil, err
	}
	if handle.From == "" || !handle.Volume || handle.Runtime == boot.Machine {
		return changesView{Paths: []string{}}, nil
	}
	defer s.Snapshots.Locks.Lock("snapshot " + handle.From)()
	clock := stopwatch.New()
	defer func() { s.Log.Printf("%s: changes: %s", args.ID, clock) }()
	paths, err := s.changesBelow(handle, args.Path)
	clock.Lap("compare")
	if err != nil {
		if !errors.Is(err, pool.ErrUnknown) {
			s.Log.Printf("%s: changes: %v", args.ID, err)
		}
		return changesView{Paths: []string{}}, nil
	}
	return changesView{Snapshot: handle.From, Known: true, Paths: paths}, nil
}

func (s *Sandboxes) changesBelow(handle *Handle, inside string) ([]string, error) {
	from, err := s.Snapshots.Load(handle.From)
	if err != nil {
		return nil, err
	}
	// With more snapshots below its files, the sandbox shows other files than the snapshot did.
	if from == nil || !from.Root.Equal(handle.Root) || handle.Unknown || filepath.Clean(inside) != inside {
		return nil, pool.ErrUnknown
	}
	if handle.hasMountAt(inside) {
		return nil, pool.ErrUnknown
	}
	upper := rootfs.UpperOf(filepath.Join(s.Pool.Path(handle.files()), "upper"), inside)
	if upper == "" {
		return nil, pool.ErrUnknown
	}
	paths, err := s.Pool.Changes(handle.files(), from.Files(), "upper/"+upper)
	if paths == nil {
		paths = []string{}
	}
	return paths, err
}
