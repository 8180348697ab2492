package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/host/snapshots"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/vm/supervise"
)

// savedMachineRecord says how to start a saved machine. It is beside the state, in the directory of the
// snapshot; the memory is in the pool.
type savedMachineRecord struct {
	machines.Shape
	Accel, Marker string
	// Levels are the limits that hold inside.
	Levels map[string]cgroup.Level
}

const (
	savedRecord = "machine.json"
	savedState  = "state"
)

// savedMachine is the machine of a snapshot with memory.
func (s *Sandboxes) savedMachine(args hostproto.CreateSandbox) (from machineSource, err error) {
	if args.Snapshot == "" || len(args.Mounts) > 0 {
		return from, hostproto.Errorf(hostproto.InvalidArgument, "snapshot.memory", "only a sandbox without mounts continues the processes of a snapshot")
	}
	var record savedMachineRecord
	text, err := os.ReadFile(filepath.Join(s.Snapshots.MemoryDir(args.Snapshot), savedRecord))
	if err == nil {
		if json.Unmarshal(text, &record) != nil {
			return from, hostproto.Errorf(hostproto.DataLoss, "snapshot.damaged", "the memory of snapshot %s is damaged", args.Snapshot)
		}
	} else if !os.IsNotExist(err) {
		return from, err
	}
	release, err := s.Machines.Release(record.Accel)
	if err != nil {
		return from, err
	}
	dir, err := s.Snapshots.MemoryOf(args.Snapshot, release)
	if err != nil {
		return from, err
	}
	shape := shapeOf(args.Resources, args.Docker)
	if shape.Docker != record.Docker {
		return from, hostproto.Errorf(hostproto.InvalidArgument, "snapshot.docker", "the sandbox of snapshot %s %s a Docker engine, and its processes continue only in one that does too",
			args.Snapshot, map[bool]string{true: "may run", false: "cannot run"}[record.Docker]).
			WithHint("restore its files only (`--files`)")
	}
	if shape != record.Shape {
		return from, hostproto.Errorf(hostproto.InvalidArgument, "snapshot.resources",
			"the processes of snapshot %s need a machine with %d MiB and %d processors, as they had", args.Snapshot, record.MemoryMiB, record.CPUs).
			WithHint("leave out the options for memory and processors, or restore its files only (`--files`)")
	}
	memory, err := s.Machines.Saved(args.Snapshot)
	return machineSource{Template: machines.Template{Shape: record.Shape, Accel: record.Accel, Marker: record.Marker, Memory: memory,
		State: filepath.Join(dir, savedState)}, isRooted: true, levels: record.Levels}, err
}

// heldMachine is a machine that stands still until it is saved.
type heldMachine struct {
	*supervise.Hold
	sandboxes *Sandboxes
	handle    *Handle
	machine   machineRecord
	release   string
}

// holdMachine stops a running machine.
func (s *Sandboxes) holdMachine(handle *Handle) (snapshots.Held, error) {
	if handle.Machine == nil {
		return nil, hostproto.Errorf(hostproto.FailedPrecondition, "snapshot.unsavable", "sandbox %s has no record of its machine", handle.ID)
	}
	release, err := s.Machines.Release(handle.Machine.Accel)
	if err != nil {
		return nil, err
	}
	hold, err := supervise.HoldStill(s.runOf(handle).Control)
	if err != nil {
		return nil, memoryError(handle.ID, err)
	}
	return &heldMachine{hold, s, handle, *handle.Machine, release}, nil
}

func (h *heldMachine) Version() string { return h.release }

// Save writes the state to the directory, and copies the memory to the pool. The machine runs again
// afterwards.
func (h *heldMachine) Save(snapshot, dir string) (int64, error) {
	defer h.Release()
	bytes, err := h.save(snapshot, dir)
	if err != nil {
		return 0, memoryError(h.handle.ID, err)
	}
	return bytes, nil
}

func (h *heldMachine) save(snapshot, dir string) (int64, error) {
	state, err := os.OpenFile(filepath.Join(dir, savedState), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer state.Close()
	marker, err := h.Hold.Save(state)
	if err != nil {
		return 0, err
	}
	bytes, err := h.sandboxes.Machines.KeepMemory(h.handle.group(), snapshot)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(savedMachineRecord{h.machine.Shape, h.machine.Accel, marker, h.machine.Levels})
	if err != nil {
		return 0, err
	}
	return bytes, safefs.WriteFile(filepath.Join(dir, savedRecord), text, 0o600)
}
