package lifecycle

import (
	"errors"
	"os"
	"path/filepath"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/random"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/vm/order"
	"agentpod/native/internal/vm/supervise"
)

// machineStart opens the files that a machine starts with.
type machineStart struct {
	sandboxes *Sandboxes
	handle    *Handle
	args      hostproto.CreateSandbox
	from      machineSource
	run       *boot.Run
	launch    supervise.Launch
	// environment is the name of the environment that this machine can become; empty if there is one, or
	// none is wanted.
	environment string
	// done ends the making of the environment.
	done func()
}

// disk is the path of the sandbox's own disk.
func (m *machineStart) disk() string { return m.sandboxes.machineDisk(m.handle) }

// plan opens the disks of the layers, and says what the machine becomes.
func (m *machineStart) plan(files rootfs.Files) (order.Sandbox, error) {
	s, asked := m.sandboxes, m.args.Resources
	lowers, err := s.addLowers(&m.launch, m.args.Root)
	if err != nil {
		return order.Sandbox{}, err
	}
	keep, sizes := shells.Kept(m.args.RootDirs, shells.Sizes{Tmp: asked.TmpBytes, Shm: asked.ShmBytes})
	begin := order.Sandbox{Lowers: lowers, Upper: s.nextDisk(&m.launch, false), Files: int(files), Keep: keep, Sizes: sizes, OpenFiles: asked.Files,
		Limits: cgroup.Limits{MemoryBytes: asked.MemoryBytes, Pids: asked.Pids}}
	for _, one := range m.args.Mounts {
		begin.Tmpfs = append(begin.Tmpfs, order.Tmpfs{Path: one.Path, SizeBytes: one.SizeBytes, TakesOwner: one.TakesOwner})
	}
	return begin, nil
}

// environmentName is the name of the environment of a machine that begins like this, with a new disk.
func (m *machineStart) environmentName(begin order.Sandbox) (string, error) {
	begin.UpperBytes = m.args.Resources.DiskBytes
	return machines.EnvironmentName(&m.from.Template, begin, m.launch.Disks)
}

// open opens everything, and copies what the machine writes to. The caller closes launch, also after an
// error.
func (m *machineStart) open(files rootfs.Files) error {
	s, asked := m.sandboxes, m.args.Resources
	begin, err := m.plan(files)
	if err != nil {
		return err
	}
	if files == rootfs.NewFiles {
		if err := m.makeDisk(begin); err != nil {
			return err
		}
	}
	disk, err := os.OpenFile(m.disk(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.addDisk(&m.launch, disk, false)
	if begin.UpperBytes, err = machines.Grow(disk, asked.DiskBytes); err != nil {
		return err
	}
	if m.launch.State, err = os.Open(m.from.State); err != nil {
		return err
	}
	if m.launch.Memory, err = s.Machines.NewMemory(m.run.Name, m.from.Memory); err != nil {
		return err
	}
	plan := &m.launch.Plan
	plan.VMM, plan.Programs = s.Machines.Program.Name, s.Machines.Program.Programs
	plan.Accel, plan.MemoryMiB, plan.CPUs = m.from.Accel, m.from.MemoryMiB, m.from.CPUs
	plan.Generation, plan.Marker = random.UUID(), m.from.Marker
	if m.run.BootID = m.from.bootID; m.run.BootID == "" {
		m.run.BootID = random.UUID()
	}
	plan.Identity = newIdentity(m.run.BootID, m.args.Hostname)
	plan.Identity.IsSame, plan.Waits = m.from.bootID != "", m.from.waits
	if !m.from.isRooted {
		begin.PreparesRoot = m.environment != ""
		plan.Begin = &begin
	}
	return nil
}

// makeDisk makes the disk of a new sandbox: a copy of that of its environment, or an empty one.
func (m *machineStart) makeDisk(begin order.Sandbox) error {
	s := m.sandboxes
	name, err := m.environmentName(begin)
	if err != nil {
		return err
	}
	found, err := s.Machines.Environment(name, &m.from.Template)
	if err != nil {
		return err
	}
	if found == nil {
		if m.done = s.Machines.TryBuild(name); m.done != nil {
			m.environment = name
		} else if found, err = s.Machines.Environment(name, &m.from.Template); err != nil {
			return err
		}
	}
	if found == nil {
		return s.Machines.NewDisk(m.disk(), m.args.Resources.DiskBytes)
	}
	m.from = machineSource{Template: found.Template, isRooted: true, levels: found.Levels}
	return machines.CopyDisk(found.Disk, m.disk())
}

// close closes the files of the launch.
func (m *machineStart) close() {
	m.launch.Close()
	if m.done != nil {
		m.done()
	}
}

// keepEnvironment makes an environment of the machine, in which nothing has run yet. The sandbox continues
// also if that fails.
func (m *machineStart) keepEnvironment(levels map[string]cgroup.Level) {
	s := m.sandboxes
	hold, err := supervise.HoldStill(m.run.Control)
	if err == nil {
		err = s.Machines.KeepEnvironment(m.environment, m.run.Name, m.disk(), levels, m.from.Accel, hold.Save)
		hold.Release()
	}
	if err != nil {
		s.Log.Printf("%s: keep the environment: %v", m.handle.ID, err)
	}
}

// addLowers adds the disks of a root, and returns their order, topmost first.
func (s *Sandboxes) addLowers(launch *supervise.Launch, root hostproto.Root) ([]order.Lower, error) {
	var lowers []order.Lower
	uppers, err := s.Snapshots.Uppers(root)
	if err != nil {
		return nil, err
	}
	for i := len(uppers) - 1; i >= 0; i-- {
		disk, err := os.Open(filepath.Join(filepath.Dir(uppers[i]), machineDisk))
		if errors.Is(err, os.ErrNotExist) {
			return nil, hostproto.Errorf(hostproto.Unsupported, "snapshot.runtime", "snapshot %s is not one of a virtual machine", root.Over[i])
		}
		if err != nil {
			return nil, err
		}
		lowers = append(lowers, order.Lower{Disk: s.addDisk(launch, disk, true), IsSnapshot: true})
	}
	for i := len(root.Layers) - 1; i >= 0; i-- {
		disk, err := s.Machines.OpenLayer(root.Layers[i])
		if err != nil {
			return nil, err
		}
		lowers = append(lowers, order.Lower{Disk: s.addDisk(launch, disk, true)})
	}
	return lowers, nil
}

// nextDisk is the number of the next disk. Some programs have numbers of their own for disks that can be
// written to.
func (s *Sandboxes) nextDisk(launch *supervise.Launch, readOnly bool) int {
	first := s.Machines.Program.WritableFrom
	if readOnly || first == 0 {
		return len(launch.Disks)
	}
	for _, disk := range launch.Plan.Disks {
		if !disk.ReadOnly {
			first++
		}
	}
	return first
}

func (s *Sandboxes) addDisk(launch *supervise.Launch, file *os.File, readOnly bool) (number int) {
	number = s.nextDisk(launch, readOnly)
	launch.Disks = append(launch.Disks, file)
	launch.Plan.Disks = append(launch.Plan.Disks, supervise.PlannedDisk{Number: number, ReadOnly: readOnly})
	return number
}
