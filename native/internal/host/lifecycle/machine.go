package lifecycle

import (
	"fmt"
	"math"
	"os"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/host/standby"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/random"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/vm/drivers"
)

const (
	mib = 1 << 20
	// kernelMiB is how much more memory a machine has than its sandbox may use, for its kernel and podd.
	// memoryStepMiB is the step of memory sizes: machines of the same size share a template.
	kernelMiB, memoryStepMiB = 128, 64
	// defaultMemoryMiB is the memory of a sandbox without a limit.
	defaultMemoryMiB = 4096
	// emulatorBytes is how much memory the program that runs the machine and the supervisor use besides that of
	// the machine.
	emulatorBytes = 384 * mib
	// emulatorTasks is how many threads they have, besides one for each processor.
	emulatorTasks = 96
	// mostProcessors bounds the processors of a machine.
	mostProcessors = 64
	machineReady   = 100 * time.Second
)

// machineDisk is the name of a sandbox's disk in its entry of the pool. It is in the directory that a
// snapshot copies.
const machineDisk = "upper/disk"

// shapeOf is the machine for these limits. Its kernel holds the limits on memory and processes; the host's
// groups hold those on the machine.
func shapeOf(r hostproto.Resources, docker bool) machines.Shape {
	memory := int64(defaultMemoryMiB)
	if r.MemoryBytes > 0 {
		memory = (r.MemoryBytes + mib - 1) / mib
	}
	memory = (memory + kernelMiB + memoryStepMiB - 1) / memoryStepMiB * memoryStepMiB
	processors := 1
	if r.CPUs > 0 {
		processors = int(math.Ceil(r.CPUs))
	}
	if processors > mostProcessors {
		processors = mostProcessors
	}
	return machines.Shape{MemoryMiB: memory, CPUs: processors, Docker: docker}
}

// DefaultShape is the machine of a sandbox whose limits are the server's defaults.
var DefaultShape = shapeOf(hostproto.Resources{MemoryBytes: defaultMemoryMiB * mib, CPUs: 2}, false)

// refuseForMachine refuses what a virtual machine cannot have, before anything is made.
func refuseForMachine(kind drivers.Kind, args hostproto.CreateSandbox) error {
	if args.Root.Kind != "layers" {
		return hostproto.Errorf(hostproto.Unsupported, "root.host", "a virtual machine cannot use the tools of this machine as its root").
			WithHint("use the base `debian` (`--base debian`) or an image (`--image NAME`)")
	}
	if most, layers := mostLayers(kind), len(args.Root.Layers)+len(args.Root.Over); layers > most {
		return hostproto.Errorf(hostproto.Unsupported, "root.layers", "a virtual machine has at most %d layers with %s, and this root has %d", most, kind.Title, layers)
	}
	for _, m := range args.Mounts {
		if m.Kind != hostproto.MountTmpfs {
			return hostproto.Errorf(hostproto.Unsupported, "mount.machine", "a virtual machine cannot mount a %s at %s", m.Kind, m.Path).
				WithHint("leave it out, or use `--isolation container`")
		}
	}
	return nil
}

// mostLayers is how many read-only disks a machine can have.
func mostLayers(kind drivers.Kind) int {
	if kind.WritableFrom > 0 {
		return kind.WritableFrom
	}
	return kind.MostDisks - 1
}

// createMachine gives a new sandbox a disk, and starts a virtual machine on it.
func (s *Sandboxes) createMachine(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	if err := refuseForMachine(s.Machines.Program.Kind, args); err != nil {
		return err
	}
	if args.Snapshot == "" {
		return s.createNewMachine(handle, args, clock)
	}
	if args.Memory {
		return s.createSavedMachine(handle, args, clock)
	}
	defer s.waiting.Starting()(nil)
	from, err := s.templateMachine(args)
	if err != nil {
		return err
	}
	clock.Lap("template")
	return s.startCopy(handle, args, from, clock)
}

// startCopy starts a machine on a copy of the disk of a snapshot.
func (s *Sandboxes) startCopy(handle *Handle, args hostproto.CreateSandbox, from machineSource, clock *stopwatch.Stopwatch) error {
	if err := s.copyMachineFiles(handle, args); err != nil {
		return err
	}
	clock.Lap("disk")
	return s.startMachine(handle, args, from, rootfs.CopiedFiles, clock)
}

// copyMachineFiles makes the entry of a sandbox, with a copy of the disk of a snapshot.
func (s *Sandboxes) copyMachineFiles(handle *Handle, args hostproto.CreateSandbox) (err error) {
	// The size of the disk is its limit.
	args.Resources.DiskBytes = 0
	handle.FromBytes, err = s.Snapshots.CopyTo(handle.files(), args)
	return err
}

// createNewMachine is for a sandbox without files. The next one is expected to be like it.
func (s *Sandboxes) createNewMachine(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) (err error) {
	started := s.waiting.Starting()
	var next *standby.Wish
	defer func() { started(next) }()
	from, err := s.templateMachine(args)
	if err != nil {
		return err
	}
	environment, err := s.environmentName(args, from)
	if err != nil {
		return err
	}
	clock.Lap("template")
	if s.fromWaiting(environment, handle, args, clock) {
		err = s.watchStarted(handle)
	} else if err = s.newMachineFiles(handle); err == nil {
		err = s.startMachine(handle, args, from, rootfs.NewFiles, clock)
	}
	if err == nil {
		next = &standby.Wish{Kind: environment, Make: func() (standby.Machine, error) { return s.makeWaiting(environment, args, from) }}
	}
	return err
}

// createSavedMachine is for a sandbox that continues the processes of a snapshot. The next one is expected to
// continue them, too.
func (s *Sandboxes) createSavedMachine(handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	started := s.waiting.Starting()
	var next *standby.Wish
	defer func() { started(next) }()
	from, err := s.savedMachine(args)
	if err != nil {
		return err
	}
	clock.Lap("template")
	kind, err := savedKind(args)
	if err != nil {
		return err
	}
	if s.fromWaiting(kind, handle, args, clock) {
		err = s.watchStarted(handle)
	} else {
		err = s.startCopy(handle, args, from, clock)
	}
	if err == nil {
		next = &standby.Wish{Kind: kind, Make: func() (standby.Machine, error) { return s.makeSavedWaiting(args) },
			IsThere: func() bool { return s.Snapshots.Has(args.Snapshot) }}
	}
	return err
}

// A machineSource is what a machine starts from: a template, an environment, or a snapshot with memory.
type machineSource struct {
	machines.Template
	// isRooted: the machine has its disks and its root already.
	isRooted bool
	// levels are the limits that hold inside, if they are known.
	levels map[string]cgroup.Level
	// waits: the programs of a snapshot stay frozen, until a sandbox needs them.
	waits bool
	// bootID is that of a sandbox that continues; empty for another sandbox.
	bootID string
	// check compares the memory with its checksum; nil if it has none.
	check func() error
}

// checking compares the memory with its checksum. The function that it returns waits for the result.
func (m machineSource) checking() (result func() error) {
	if m.check == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- m.check() }()
	return func() error { return <-done }
}

func (s *Sandboxes) templateMachine(args hostproto.CreateSandbox) (machineSource, error) {
	template, err := s.Machines.Template(shapeOf(args.Resources, args.Docker))
	if err != nil {
		return machineSource{}, err
	}
	return machineSource{Template: *template}, nil
}

// startMachine starts the machine of a sandbox. With NewFiles it makes its disk.
func (s *Sandboxes) startMachine(handle *Handle, args hostproto.CreateSandbox, from machineSource, files rootfs.Files, clock *stopwatch.Stopwatch) error {
	if err := s.bootMachine(handle, args, from, files, clock); err != nil {
		return err
	}
	return s.watchStarted(handle)
}

// bootMachine starts a machine, which ends with podhost until its sandbox is watched.
func (s *Sandboxes) bootMachine(handle *Handle, args hostproto.CreateSandbox, from machineSource, files rootfs.Files, clock *stopwatch.Stopwatch) error {
	run := boot.NewRun(s.Home, "sh"+random.Hex(7), boot.Machine)
	handle.Shell = run.Name
	start := &machineStart{sandboxes: s, handle: handle, args: args, from: from, run: run}
	defer start.close()
	checked := from.checking()
	err := start.open(files)
	if err == nil {
		clock.Lap("files")
		run.Machine = &boot.MachineStart{Launch: &start.launch, ReadyWithin: machineReady, Prepare: func(run *boot.Run) error {
			return s.limitMachine(run, handle, args.Resources, start.from.Shape)
		}}
		err = s.awaitMachine(run, checked)
	}
	if err != nil {
		if undo := s.Launcher.End(run, stopwatch.New()); undo != nil {
			s.Log.Printf("%s: undo: %v", handle.ID, undo)
		}
		return err
	}
	clock.Lap("machine")
	levels := run.Machine.Levels
	if levels == nil {
		levels = start.from.levels
	}
	handle.setInnerLimits(levels)
	if start.environment != "" {
		start.keepEnvironment(levels)
		clock.Lap("environment")
	}
	handle.setRun(run)
	handle.Machine = &machineRecord{start.from.Shape, start.from.Accel, levels}
	return nil
}

// setInnerLimits records the limits that the machine's own kernel holds. The host's group holds the one on
// processors.
func (h *Handle) setInnerLimits(levels map[string]cgroup.Level) {
	for _, name := range []string{"memory", "pids"} {
		if level, known := levels[name]; known {
			h.Limits[name] = level
		}
	}
}

// awaitMachine starts a machine and waits until podd serves in it. Its memory is checked meanwhile: the
// caller ends a machine whose memory is damaged.
func (s *Sandboxes) awaitMachine(run *boot.Run, checked func() error) error {
	defer s.Machines.Starting()()
	err := s.Launcher.Start(run)
	if damage := checked(); damage != nil {
		return damage
	}
	if err != nil {
		return err
	}
	return s.Launcher.AwaitReady(run)
}

// limitMachine limits the machine as a whole. Its kernel limits what runs inside.
func (s *Sandboxes) limitMachine(run *boot.Run, handle *Handle, asked hostproto.Resources, shape machines.Shape) error {
	limits := cgroup.Limits{MemoryBytes: shape.MemoryMiB*mib + emulatorBytes, CPUs: asked.CPUs, Pids: emulatorTasks + 2*int64(shape.CPUs)}
	levels := s.Launcher.Cgroups.Limit(run.Name, limits)
	handle.Limits = levels
	levels["swap"] = cgroup.NotAsked
	if asked.SwapBytes > 0 {
		levels["swap"] = cgroup.None("a virtual machine has no swap space")
	}
	levels["files"], levels["disk"] = cgroup.NotAsked, cgroup.NotAsked
	if asked.Files > 0 {
		levels["files"] = cgroup.Enforced
	}
	if asked.DiskBytes > 0 {
		levels["disk"] = cgroup.Enforced
		if info, err := os.Stat(s.machineDisk(handle)); err == nil && info.Size() > asked.DiskBytes+mib {
			levels["disk"] = cgroup.Level{Level: "enforced", Reason: fmt.Sprintf("at %d MiB, the size of the disk that was copied", info.Size()/mib)}
		}
	}
	return nil
}
