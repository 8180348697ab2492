package host

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

// damagedHandle is the reason of a handle that cannot be read, as a power cut may leave one of a sandbox that ran.
const damagedHandle = "sandbox.handle"

// existingOrRebuilt is existing, with a damaged handle made anew as far as its files tell. Owner and root are not known then. It is
// "stopping": whatever may still run of the sandbox has to be ended before anything else.
func (h *Host) existingOrRebuilt(id string) (*Handle, error) {
	handle, err := h.existing(id)
	var damage *hostproto.Error
	if !errors.As(err, &damage) || damage.Reason != damagedHandle {
		return handle, err
	}
	handle = &Handle{ID: id, State: stateStopping, CreatedMs: time.Now().UnixMilli(), Unknown: true,
		Limits: map[string]cgroup.Level{}, Root: hostproto.Root{Kind: "host"}}
	if _, plain := os.Lstat(filepath.Join(h.dir(id), "upper")); plain != nil {
		handle.Volume = true
		there, unreachable := h.pool.Has(pool.Entry{Area: pool.Sandboxes, ID: id, IsVolume: true})
		if unreachable != nil {
			return nil, unreachable
		}
		if !there {
			return nil, err
		}
	}
	h.mu.Lock()
	if l := h.live[id]; l != nil && l.group != id {
		handle.Shell = l.group
	}
	h.mu.Unlock()
	h.log.Printf("%s: its handle is damaged and made anew", id)
	return handle, nil
}
