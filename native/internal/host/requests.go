package host

import (
	"fmt"
	"os"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/lifecycle"
	"agentpod/native/internal/host/probe"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/random"
)

// IsLong reports whether a request reads or writes file by file. What it depends on may change before the
// request has its locks. Then the request is in the wrong lane, which does no other harm.
func (h *Host) IsLong(request hostproto.Request) bool {
	switch args := request.Args.(type) {
	case hostproto.LayerFile:
		return request.Op == "layer.export" || !h.layers.Has(args.Digest)
	case hostproto.ExportSnapshot:
		return true
	case hostproto.ImportSnapshot:
		s, err := h.snapshots.Load(args.ID)
		return s == nil && err == nil
	case hostproto.CreateSandbox:
		if args.Snapshot == "" {
			return false
		}
		s, err := h.snapshots.Load(args.Snapshot)
		return err == nil && s != nil && h.isCopied(s.Files(), pool.Sandboxes, args.ID)
	case hostproto.CreateSnapshot:
		files, exists := h.sandboxes.Files(args.Sandbox)
		return exists && h.isCopied(files, pool.Snapshots, args.ID)
	}
	return false
}

// isCopied reports whether making a new entry from another one copies it file by file.
func (h *Host) isCopied(from pool.Entry, area pool.Area, id string) bool {
	to, err := h.pool.Entry(area, id)
	return err == nil && !h.pool.Clones(from, to)
}

// Perform takes the locks that a request needs, and performs it.
func (h *Host) Perform(request hostproto.Request) (any, error) {
	switch args := request.Args.(type) {
	case hostproto.CreateSandbox:
		defer h.lockSandbox(args.ID)()
		h.layerUse.RLock()
		defer h.layerUse.RUnlock()
		for _, root := range append(hostproto.Roots(args.Mounts), args.Root) {
			release, err := h.snapshots.Hold(root)
			if err != nil {
				return nil, err
			}
			defer release()
		}
		switch request.Op {
		case "sandbox.start":
			return h.sandboxes.StartAgain(args)
		case "sandbox.restore":
			return h.sandboxes.RestoreSaved(args)
		}
		return h.sandboxes.Create(args)
	case hostproto.SetDeadline:
		defer h.lockSandbox(args.ID)()
		if request.Op == "sandbox.resume" {
			return h.sandboxes.Resume(args)
		}
		return h.sandboxes.SetDeadline(args)
	case hostproto.LayerFile:
		return h.performLayerFile(request.Op, args)
	case hostproto.LayerDigest:
		defer h.locks.Lock("layer " + args.Digest)()
		return h.removeLayer(args.Digest)
	case hostproto.List:
		if request.Op == "snapshot.list" {
			return h.snapshots.List(args.After), nil
		}
		if request.Op == "volume.list" {
			return h.volumes.List(args.After), nil
		}
		return h.sandboxes.List(args.After), nil
	case hostproto.CreateVolume:
		return h.volumes.Create(args)
	case hostproto.VolumeID:
		if request.Op == "volume.stats" {
			return h.volumes.Stats(args.ID)
		}
		return h.volumes.Remove(args.ID, h.sandboxes)
	case hostproto.Probe:
		return map[string]any{"checks": h.probe(boot.Runtime(args.Runtime))}, nil
	case hostproto.SandboxPath:
		defer h.lockSandbox(args.ID)()
		return h.sandboxes.Changes(args)
	case hostproto.SandboxID:
		return h.performOnSandbox(request.Op, args.ID)
	}
	if result, known, err := h.performSnapshot(request.Args); known {
		return result, err
	}
	switch request.Op {
	case "hello":
		return h.hello(), nil
	case "layer.list":
		layers, err := h.layers.List()
		return map[string]any{"layers": layers}, err
	case "clear":
		return h.clear()
	case "shutdown":
		// The client may remove the state directory next, so the shells in it end before the answer.
		h.shells.Close()
		h.gvisorShells.Close()
		h.memoryShells.Close()
		h.Stop()
		return map[string]any{}, nil
	}
	return nil, fmt.Errorf("operation %s has no handler", request.Op)
}

func (h *Host) lockSandbox(id string) func() { return h.locks.Lock("sandbox " + id) }

// performSnapshot locks a sandbox before a snapshot, as a create from a snapshot does.
func (h *Host) performSnapshot(arguments any) (result any, known bool, err error) {
	switch args := arguments.(type) {
	case hostproto.CreateSnapshot:
		defer h.lockSandbox(args.Sandbox)()
		defer h.locks.Lock("snapshot " + args.ID)()
		h.layerUse.RLock()
		defer h.layerUse.RUnlock()
		result, err = h.snapshots.Create(args, h.sandboxes.SnapshotSource)
	case hostproto.SnapshotID:
		origin := h.snapshots.Origin(args.ID)
		result, err = h.snapshots.Remove(args.ID, h.sandboxes)
		if err == nil {
			h.sandboxes.ForgetSnapshot(args.ID)
		}
		if origin != "" && err == nil {
			h.sandboxes.LowerDiskLimit(origin)
		}
	case hostproto.ExportSnapshot:
		result, err = h.snapshots.Export(args)
	case hostproto.ImportSnapshot:
		defer h.locks.Lock("snapshot " + args.ID)()
		h.layerUse.RLock()
		defer h.layerUse.RUnlock()
		release, absent := h.snapshots.Hold(args.Root)
		if absent != nil {
			return nil, true, absent
		}
		defer release()
		result, err = h.snapshots.Import(args)
	default:
		return nil, false, nil
	}
	return result, true, err
}

func (h *Host) performOnSandbox(op, id string) (any, error) {
	if op == "sandbox.inspect" {
		return h.sandboxes.Inspect(id)
	}
	if op == "sandbox.stats" {
		return h.sandboxes.Stats(id)
	}
	defer h.lockSandbox(id)()
	switch op {
	case "sandbox.destroy":
		return h.sandboxes.Destroy(id)
	case "sandbox.pause":
		return h.sandboxes.Pause(id)
	case "sandbox.save":
		return h.sandboxes.Save(id)
	case "sandbox.stop":
		return h.sandboxes.Stop(id)
	}
	return nil, fmt.Errorf("operation %s has no handler", op)
}

func (h *Host) hello() any {
	return map[string]any{
		"version": h.config.Version, "protocol": hostproto.Version, "pid": os.Getpid(), "rootless": h.config.Rootless,
		"uidBase": h.stored.Base, "uidCount": h.stored.Count, "cgroup": h.cgroups.Version(), "controllers": h.cgroups.Controllers(),
		"idmap": h.stage.Shifted(), "freezer": h.sandboxes.Freezer(), "pool": h.pool.Info(),
		"volumes": true, "rootMounts": true,
		"network": h.network.Level(), "shells": h.shells.Pids(), "gvisor": h.gvisor(), "qemu": h.qemu(),
		"ids": lifecycle.IDView{Base: h.stored.Base, Own: h.ids.Shared() == "", Reason: h.ids.Shared()},
	}
}

// gvisor says whether sandboxes can run on gVisor here.
func (h *Host) gvisor() any {
	release, err := h.launcher.Runsc.Release()
	if err != nil {
		failure := hostproto.AsError(err)
		return map[string]any{"available": false, "release": release, "reason": failure.Message, "hint": failure.Hint}
	}
	return map[string]any{"available": true, "release": release}
}

// qemu says whether sandboxes can be virtual machines here.
func (h *Host) qemu() any {
	version, err := h.machines.Check()
	if err != nil {
		failure := hostproto.AsError(err)
		return map[string]any{"available": false, "release": version, "reason": failure.Message, "hint": failure.Hint}
	}
	return map[string]any{"available": true, "release": version}
}

func (h *Host) probe(runtime boot.Runtime) []probe.Check {
	if runtime == boot.Machine {
		return probe.Machine(h.machines.Program.Title, h.machines.Check, h.tryMachine)
	}
	if runtime == boot.GVisor {
		return probe.GVisor(h.launcher.Runsc.Release, func() (string, error) { return h.trySandbox(runtime) })
	}
	return probe.Host{Home: h.home, Rootless: h.config.Rootless, Stored: h.stored, IDs: h.ids, Cgroups: h.cgroups,
		Network: h.network.Check, Pool: h.pool, Sandbox: func() (string, error) { return h.trySandbox(runtime) }}.Run()
}

// trySandbox creates a sandbox, asks podd in it for its health and destroys it.
func (h *Host) trySandbox(runtime boot.Runtime) (string, error) {
	id := "probe" + random.Hex(4)
	defer h.lockSandbox(id)()
	h.layerUse.RLock()
	defer h.layerUse.RUnlock()
	begin := time.Now()
	_, err := h.sandboxes.Create(hostproto.CreateSandbox{ID: id, Owner: "probe", Hostname: "probe", Root: hostproto.Root{Kind: "host"},
		DeadlineMs: begin.Add(time.Minute).UnixMilli(), Runtime: string(runtime)})
	if err != nil {
		return "", err
	}
	status, err := h.sandboxes.AskHealth(id)
	took := time.Since(begin)
	if _, undo := h.sandboxes.Destroy(id); err == nil {
		err = undo
	}
	return fmt.Sprintf("podd answered %q after %d ms", status, took.Milliseconds()), err
}
