package host

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/rootfs"
)

// answer runs one request. A defect in one request must not take the others with it.
func (h *Host) answer(request hostproto.Request, place *slot) (reply answer) {
	reply.ID = request.ID
	defer func() {
		if cause := recover(); cause != nil {
			incident := rootfs.RandomHex(6)
			h.log.Printf("incident %s: %s: %v\n%s", incident, request.Op, cause, debug.Stack())
			reply.Result = nil
			reply.Error = hostproto.Errorf(hostproto.Internal, "host.defect", "podhost failed; its log has incident %s", incident)
		}
	}()
	result, err := h.perform(request, place)
	if err != nil {
		reply.Error = hostproto.AsError(err)
		h.log.Printf("%s: %s: %s", request.Op, reply.Error.Reason, reply.Error.Message)
		return reply
	}
	reply.Result = result
	return reply
}

func (h *Host) perform(request hostproto.Request, place *slot) (any, error) {
	if h.isLong(request) {
		done, err := h.enterLong(place)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	switch args := request.Args.(type) {
	case hostproto.CreateSandbox:
		defer h.locks.lock("sandbox " + args.ID)()
		h.layerUse.RLock()
		defer h.layerUse.RUnlock()
		release, err := h.holdOver(args.Root)
		if err != nil {
			return nil, err
		}
		defer release()
		if request.Op == "sandbox.start" {
			return h.startAgain(args)
		}
		return h.create(args)
	case hostproto.SetDeadline:
		defer h.locks.lock("sandbox " + args.ID)()
		if request.Op == "sandbox.resume" {
			return h.resume(args)
		}
		return h.setDeadline(args)
	case hostproto.LayerFile:
		defer h.locks.lock("layer " + args.Digest)()
		if err := h.pool.Room(); err != nil {
			return nil, err
		}
		if request.Op == "layer.export" {
			defer h.locks.lock("file " + args.File)()
			return h.layers.Export(args.Digest, args.File)
		}
		return h.layers.Import(args.Digest, args.File)
	case hostproto.LayerDigest:
		defer h.locks.lock("layer " + args.Digest)()
		return h.removeLayer(args.Digest)
	case hostproto.List:
		if request.Op == "snapshot.list" {
			return h.listSnapshots(args.After), nil
		}
		return h.list(args.After), nil
	case hostproto.SandboxID:
		return h.performOn(request.Op, args.ID)
	}
	if result, known, err := h.performSnapshot(request.Args); known {
		return result, err
	}
	switch request.Op {
	case "hello":
		return h.hello(), nil
	case "probe":
		return map[string]any{"checks": h.probe()}, nil
	case "layer.list":
		layers, err := h.layers.List()
		return map[string]any{"layers": layers}, err
	case "clear":
		return h.clear()
	case "shutdown":
		// Whoever asked may remove the state directory next.
		h.shells.close()
		h.Stop()
		return map[string]any{}, nil
	}
	return nil, fmt.Errorf("operation %s has no handler", request.Op)
}

// performSnapshot takes the lock of a sandbox before that of a snapshot, as a create from a snapshot does.
func (h *Host) performSnapshot(arguments any) (result any, known bool, err error) {
	switch args := arguments.(type) {
	case hostproto.CreateSnapshot:
		defer h.locks.lock("sandbox " + args.Sandbox)()
		defer h.locks.lock("snapshot " + args.ID)()
		h.layerUse.RLock()
		defer h.layerUse.RUnlock()
		result, err = h.createSnapshot(args)
	case hostproto.SnapshotID:
		origin := h.originOf(args.ID)
		result, err = h.removeSnapshot(args.ID)
		if origin != "" && err == nil {
			h.letGo(origin)
		}
	case hostproto.ExportSnapshot:
		result, err = h.exportSnapshot(args)
	case hostproto.ImportSnapshot:
		defer h.locks.lock("snapshot " + args.ID)()
		h.layerUse.RLock()
		defer h.layerUse.RUnlock()
		release, absent := h.holdOver(args.Root)
		if absent != nil {
			return nil, true, absent
		}
		defer release()
		result, err = h.importSnapshot(args)
	default:
		return nil, false, nil
	}
	return result, true, err
}

func (h *Host) performOn(op, id string) (any, error) {
	if op == "sandbox.inspect" {
		return h.inspect(id)
	}
	if op == "sandbox.stats" {
		return h.stats(id)
	}
	defer h.locks.lock("sandbox " + id)()
	switch op {
	case "sandbox.destroy":
		return h.destroy(id)
	case "sandbox.pause":
		return h.pause(id)
	case "sandbox.stop":
		return h.stop(id)
	}
	return nil, fmt.Errorf("operation %s has no handler", op)
}

func (h *Host) hello() any {
	return map[string]any{
		"version": h.config.Version, "protocol": hostproto.Version, "pid": os.Getpid(), "rootless": h.config.Rootless,
		"uidBase": h.stored.Base, "uidCount": h.stored.Count, "cgroup": h.cgroups.Version(), "controllers": h.cgroups.Controllers(),
		"idmap": h.stage.Shifted(), "freezer": h.freezer(), "pool": h.pool.Info(), "runtime": h.runtime,
		"network": h.spares.network(), "ids": idView{Base: h.stored.Base, Own: h.ids.Shared() == "", Reason: h.ids.Shared()},
	}
}

// view is a sandbox as inspect and list show it.
type view struct {
	ID         string                  `json:"id,omitempty"`
	State      string                  `json:"state"`
	Owner      string                  `json:"owner"`
	Pid        int                     `json:"pid"`
	StartTime  uint64                  `json:"startTime"`
	Socket     string                  `json:"socket"`
	Out        string                  `json:"out"`
	Network    netns.Level             `json:"network"`
	DeadlineMs int64                   `json:"deadlineMs"`
	OOMKilled  bool                    `json:"oomKilled"`
	Expired    bool                    `json:"expired"`
	Limits     map[string]cgroup.Level `json:"limits"`
	IDs        idView                  `json:"ids"`
}

// unknownView is of a sandbox of which nothing else is known.
func unknownView(state string) view {
	return view{State: state, Limits: map[string]cgroup.Level{}, Network: netns.NoWay("%s", noListener)}
}

// inspect tells what is on disk and whether the process lives. A sandbox that is being made or removed is absent: it is not
// there yet, or no longer.
func (h *Host) inspect(id string) (view, error) {
	handle, err := h.load(id)
	if err != nil {
		return view{}, err
	}
	if !handle.exists() {
		return unknownView("absent"), nil
	}
	v := view{State: handle.State, Owner: handle.Owner, Pid: handle.Pid, StartTime: handle.StartTime, Socket: h.socket(handle),
		DeadlineMs: handle.DeadlineMs, Limits: handle.Limits, IDs: h.idsOf(handle)}
	v.Out, v.Network = h.wayOut(handle)
	switch {
	case handle.State == stateStopped || handle.State == stateStarting:
		v.State, v.Expired = stateStopped, handle.Expired
	case !h.isAlive(id):
		exit, _ := h.loadExit(id)
		v.State, v.OOMKilled, v.Expired = "exited", exit.OOMKilled, exit.Expired
	case handle.State == stateStopping:
		v.State = stateRunning
	}
	if (v.State == stateStopped || v.State == "exited") && h.hasLostFiles(handle) {
		v.State = "absent"
	}
	return v, nil
}

// pageLength keeps a list's answer within a line.
const pageLength = 500

func (h *Host) list(after string) any {
	sandboxes, next := []view{}, ""
	for _, id := range h.sandboxIDs() {
		if id <= after {
			continue
		}
		if len(sandboxes) == pageLength {
			next = sandboxes[pageLength-1].ID
			break
		}
		v, err := h.inspect(id)
		if err != nil {
			v = unknownView("exited")
		}
		// One whose files are gone is listed: whoever owns it has to destroy what is left.
		if v.ID = id; v.State != "absent" || v.Owner != "" {
			sandboxes = append(sandboxes, v)
		}
	}
	return map[string]any{"sandboxes": sandboxes, "next": next}
}

func (h *Host) setDeadline(args hostproto.SetDeadline) (any, error) {
	handle, err := h.existing(args.ID)
	if err != nil {
		return nil, err
	}
	handle.DeadlineMs = args.DeadlineMs
	if err := h.save(handle); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.live[args.ID]; l != nil {
		l.deadlineMs = args.DeadlineMs
	}
	return map[string]any{}, nil
}

// removeLayer refuses while a sandbox or a snapshot stands on the layer. No start is under way meanwhile, so every sandbox that does has a handle.
func (h *Host) removeLayer(digest string) (any, error) {
	release, err := h.holdLayers()
	if err != nil {
		return nil, err
	}
	defer release()
	if user := h.whoUses(func(root hostproto.Root) bool { return root.Uses(digest) }); user != "" {
		return nil, hostproto.Errorf(hostproto.Conflict, "layer.used", "%s stands on layer %s", user, digest)
	}
	return map[string]any{}, h.layers.Remove(digest)
}

// holdLayers waits until no start and no import is under way, but not in a line: those that come later would have to wait behind it, for
// minutes where an import is under way.
func (h *Host) holdLayers() (release func(), err error) {
	for deadline := time.Now().Add(2 * time.Second); !h.layerUse.TryLock(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, hostproto.Errorf(hostproto.Conflict, "layer.busy", "sandboxes are being started, or snapshots copied or imported, all the time").
				WithHint("try again later")
		}
	}
	return h.layerUse.Unlock, nil
}

// clear removes what outlives sandboxes. Its files belong to the sandboxes' ids, so an ordinary user cannot remove them with rm.
func (h *Host) clear() (any, error) {
	release, err := h.holdLayers()
	if err != nil {
		return nil, err
	}
	defer release()
	if ids := h.sandboxIDs(); len(ids) > 0 {
		return nil, hostproto.Errorf(hostproto.Conflict, "sandbox.exists", "sandbox %s exists", ids[0])
	}
	if ids := h.snapshotIDs(); len(ids) > 0 {
		return nil, hostproto.Errorf(hostproto.Conflict, "snapshot.exists", "snapshot %s exists", ids[0])
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
