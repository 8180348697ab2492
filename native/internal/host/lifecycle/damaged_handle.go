package lifecycle

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

// damagedHandle is the reason of the error for a handle that cannot be read. A power cut can damage the
// handle of a running sandbox.
const damagedHandle = "sandbox.handle"

// existingOrReconstructed is existing, but it reconstructs a damaged handle from the sandbox's files. Owner
// and root are then unknown. The state is "stopping", because processes of the sandbox that may still run
// have to be ended first.
func (s *Sandboxes) existingOrReconstructed(id string) (*Handle, error) {
	handle, err := s.existing(id)
	var damage *hostproto.Error
	if !errors.As(err, &damage) || damage.Reason != damagedHandle {
		return handle, err
	}
	handle = &Handle{ID: id, State: stateStopping, CreatedMs: time.Now().UnixMilli(), Unknown: true,
		Limits: map[string]cgroup.Level{}, Root: hostproto.Root{Kind: "host"}}
	if _, plain := os.Lstat(filepath.Join(s.dir(id), "upper")); plain != nil {
		handle.Volume = true
		there, unreachable := s.Pool.Has(pool.Entry{Area: pool.Sandboxes, ID: id, IsVolume: true})
		if unreachable != nil {
			return nil, unreachable
		}
		if !there {
			return nil, err
		}
	}
	s.mu.Lock()
	if l := s.live[id]; l != nil && l.group != id {
		handle.Shell = l.group
	}
	s.mu.Unlock()
	s.Log.Printf("%s: its handle is damaged and was reconstructed", id)
	return handle, nil
}
