package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/memoryimage"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/vm/supervise"
)

// savedMachineRecord says how to start a saved machine. It is beside the state, in the directory of the
// snapshot or of the sandbox; the memory is in the pool.
type savedMachineRecord struct {
	machines.Shape
	Accel, Marker string
	// Levels are the limits that hold inside.
	Levels map[string]cgroup.Level
	// Memory describes the memory. Records of an earlier version have none.
	Memory *memoryimage.File `json:",omitempty"`
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
	what := "the memory of snapshot " + args.Snapshot
	record, err := readSavedMachine(s.Snapshots.MemoryDir(args.Snapshot), what)
	if err != nil {
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
	return s.sourceOf(record, args.Snapshot, dir, func(memory string) error {
		if err := record.checkMemory(memory, what); err != nil {
			return hostproto.AsError(err).WithHint("its files can still be used: `agentpod restore --files " + args.Snapshot + "`")
		}
		return nil
	})
}

// checkMemory compares the memory with the record.
func (r savedMachineRecord) checkMemory(path, what string) error {
	if r.Memory == nil {
		return nil
	}
	return r.Memory.CheckPages(path, what)
}

// readSavedMachine reads the record in a directory. It is empty for a directory without one.
func readSavedMachine(dir, what string) (record savedMachineRecord, err error) {
	text, err := os.ReadFile(filepath.Join(dir, savedRecord))
	if os.IsNotExist(err) {
		return record, nil
	}
	if err == nil && json.Unmarshal(text, &record) != nil {
		err = hostproto.Errorf(hostproto.DataLoss, "memory.damaged", "%s is damaged: its record cannot be read", what)
	}
	return record, err
}

// sourceOf is the machine that a record describes. name is the entry of its memory in the pool, and dir has
// its state. check compares the memory with the record.
func (s *Sandboxes) sourceOf(record savedMachineRecord, name, dir string, check func(memory string) error) (machineSource, error) {
	memory, err := s.Machines.Saved(name)
	return machineSource{Template: machines.Template{Shape: record.Shape, Accel: record.Accel, Marker: record.Marker, Memory: memory,
		State: filepath.Join(dir, savedState)}, isRooted: true, levels: record.Levels, check: func() error { return check(memory) }}, err
}

// continueMachine continues the machine of a sandbox that is paused to disk.
//
// INVARIANT: the disk of a saved machine is as it was when the memory was saved. The machine has parts of it
// in its memory and would damage the file system of another one. So it runs only when there is a copy of the
// disk, which backToSaved puts back.
func (s *Sandboxes) continueMachine(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	dir, what := s.memoryDir(handle), "the saved memory of sandbox "+handle.ID
	record, err := readSavedMachine(dir, what)
	if err != nil {
		return err
	}
	from, err := s.sourceOf(record, handle.ID, dir, func(memory string) error { return record.checkMemory(memory, what) })
	if err != nil {
		return err
	}
	from.bootID = handle.BootID
	// A resume that was cut off may have left its copy, and have changed the disk.
	if err := s.Machines.PutBackDisk(handle.ID, s.machineDisk(handle)); err != nil {
		return err
	}
	if err := s.Machines.KeepDisk(handle.ID, s.machineDisk(handle)); err != nil {
		return err
	}
	clock.Lap("disk")
	return s.startMachine(handle, args, from, rootfs.OwnFiles, clock)
}

// machineDisk is the path of the disk of a machine.
func (s *Sandboxes) machineDisk(handle *Handle) string {
	return filepath.Join(s.Pool.Path(handle.files()), machineDisk)
}

// heldMachine is a machine that stands still until it is saved.
type heldMachine struct {
	*supervise.Hold
	sandboxes *Sandboxes
	handle    *Handle
	machine   machineRecord
	release   string
	since     time.Time
}

// holdMachine stops a running machine.
func (s *Sandboxes) holdMachine(handle *Handle) (held, error) {
	release, err := s.memoryRelease(handle)
	if err != nil {
		return nil, err
	}
	control := s.runOf(handle).Control
	// What is written now does not have to be written while the machine stands still.
	if err = supervise.Sync(control); err == nil {
		err = s.Machines.FlushMemory(handle.group())
	}
	since := time.Now()
	var hold *supervise.Hold
	if err == nil {
		hold, err = supervise.HoldStill(control)
	}
	if err != nil {
		return nil, memoryError(handle.ID, err)
	}
	return &heldMachine{hold, s, handle, *handle.Machine, release, since}, nil
}

func (h *heldMachine) Version() string { return h.release }

// Save writes the state to the directory, and copies the memory to the pool. The machine runs again
// afterwards.
func (h *heldMachine) Save(snapshot, dir string) (int64, error) {
	defer h.Release()
	return h.save(snapshot, dir, func() {
		h.Release()
		h.sandboxes.Log.Printf("%s: %s stood still for %.2f ms", snapshot, h.handle.ID, float64(time.Since(h.since).Microseconds())/1000)
	})
}

// SaveHeld does the same, and the machine stands still.
func (h *heldMachine) SaveHeld(sandbox, dir string) (int64, error) {
	return h.save(sandbox, dir, func() {})
}

// save calls copied as soon as the machine may run again: the copy of its memory does not change any more.
func (h *heldMachine) save(name, dir string, copied func()) (int64, error) {
	bytes, err := h.write(name, dir, copied)
	if err != nil {
		return 0, memoryError(h.handle.ID, err)
	}
	return bytes, nil
}

func (h *heldMachine) write(name, dir string, copied func()) (int64, error) {
	state, err := os.OpenFile(filepath.Join(dir, savedState), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer state.Close()
	marker, err := h.Hold.Save(state)
	if err != nil {
		return 0, err
	}
	store := h.sandboxes.Machines
	bytes, err := store.KeepMemory(h.handle.group(), name)
	if err != nil {
		return 0, err
	}
	copied()
	path, err := store.Saved(name)
	if err != nil {
		return 0, err
	}
	memory, err := memoryimage.DescribePages(path)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(savedMachineRecord{h.machine.Shape, h.machine.Accel, marker, h.machine.Levels, &memory})
	if err != nil {
		return 0, err
	}
	return bytes, safefs.WriteFile(filepath.Join(dir, savedRecord), text, 0o600)
}
