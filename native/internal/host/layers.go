package host

import (
	"time"

	"agentpod/native/internal/hostproto"
)

func (h *Host) performLayerFile(op string, args hostproto.LayerFile) (any, error) {
	defer h.locks.Lock("layer " + args.Digest)()
	if err := h.pool.CheckSpace(); err != nil {
		return nil, err
	}
	if op == "layer.export" {
		defer h.locks.Lock("file " + args.File)()
		return h.layers.Export(args.Digest, args.File)
	}
	return h.layers.Import(args.Digest, args.File)
}

// removeLayer refuses while a sandbox or a snapshot uses the layer. No start runs meanwhile, so every sandbox
// that uses the layer has a handle.
func (h *Host) removeLayer(digest string) (any, error) {
	release, err := h.holdLayers()
	if err != nil {
		return nil, err
	}
	defer release()
	isUsed := func(root hostproto.Root) bool { return root.Uses(digest) }
	user := h.sandboxes.UserOfRoot(isUsed)
	if user == "" {
		user = h.snapshots.UserOfRoot(isUsed)
	}
	if user != "" {
		return nil, hostproto.Errorf(hostproto.Conflict, "layer.used", "%s uses layer %s", user, digest)
	}
	return map[string]any{}, h.layers.Remove(digest)
}

// holdLayers waits until no start and no import runs. It does not queue for the lock: later starts would have
// to wait behind it, for minutes if an import runs.
func (h *Host) holdLayers() (release func(), err error) {
	for deadline := time.Now().Add(2 * time.Second); !h.layerUse.TryLock(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, hostproto.Errorf(hostproto.Conflict, "layer.busy",
				"podhost is busy: it is starting sandboxes, or copying or importing snapshots").WithHint("try again later")
		}
	}
	return h.layerUse.Unlock, nil
}

// clear removes everything that outlives sandboxes. The files belong to the ids of sandboxes, so an ordinary
// user cannot remove them with rm.
func (h *Host) clear() (any, error) {
	release, err := h.holdLayers()
	if err != nil {
		return nil, err
	}
	defer release()
	if ids := h.sandboxes.IDsOnDisk(); len(ids) > 0 {
		return nil, hostproto.Errorf(hostproto.Conflict, "sandbox.exists", "sandbox %s still exists", ids[0])
	}
	if ids := h.snapshots.IDs(); len(ids) > 0 {
		return nil, hostproto.Errorf(hostproto.Conflict, "snapshot.exists", "snapshot %s still exists", ids[0])
	}
	if ids := h.volumes.IDs(); len(ids) > 0 {
		return nil, hostproto.Errorf(hostproto.Conflict, "volume.exists", "volume %s still exists", ids[0])
	}
	h.shells.DropRoots()
	h.sandboxes.DropWaiting()
	h.sandboxes.AwaitUnmounts()
	if err := h.machines.Clear(); err != nil {
		return nil, err
	}
	if err := h.pool.Clear(); err != nil {
		return nil, err
	}
	layers, err := h.layers.List()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		if err := h.layers.Remove(layer.Digest); err != nil {
			return nil, err
		}
	}
	return map[string]any{}, h.builder.Clear()
}
