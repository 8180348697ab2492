package boot

import (
	"os"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/unixsocket"
	"agentpod/native/internal/vm/drivers"
	"agentpod/native/internal/vm/supervise"
)

// A MachineStart is what a virtual machine starts from, and what is known once it runs.
type MachineStart struct {
	// Launch has the plan and the files of the machine. The launcher adds sockets, and the user.
	Launch *supervise.Launch
	// Prepare, if it is not nil, is called when the run has ids and groups, and before anything of it runs.
	Prepare func(run *Run) error
	// ReadyWithin is how long it may take until podd serves.
	ReadyWithin time.Duration
	// Marker is that of a template's link. Levels are the limits that hold inside.
	Marker string
	Levels map[string]cgroup.Level
}

// startMachine starts the supervisor of a virtual machine.
func (l *Launcher) startMachine(run *Run, group *cgroup.Group, files *inherited) error {
	start := run.Machine
	launch := start.Launch
	scratch, err := l.Stage.Directory(run.Name)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(run.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if start.Prepare != nil {
		if err := start.Prepare(run); err != nil {
			return err
		}
	}
	kind, err := drivers.Named(launch.Plan.VMM)
	if err != nil {
		return err
	}
	if kind.Mounts {
		err = launch.Mount(run.IDs.Base)
	} else {
		// QEMU opens the file again, by its descriptor.
		err = launch.Memory.Chown(run.IDs.Base, run.IDs.Base)
	}
	if err != nil {
		return err
	}
	launch.Plan.Scratch, launch.Plan.Stage, launch.Plan.UID = scratch, l.Stage.Path(), run.IDs.Base
	launch.Log, launch.Group = log, group.Procs
	launch.Parent, launch.Ready = files.named("--parent-fd"), files.named("--ready-fd")
	if !launch.Plan.IsTemplate {
		launch.API, launch.Egress = files.named("--listener-fd"), files.named("--out-fd")
		if launch.Control, err = unixsocket.Listen(run.Control, 16); err != nil {
			return err
		}
		defer launch.Control.Close()
	}
	return group.Start(func() error {
		pid, err := launch.Start()
		if err == nil {
			run.Pid, run.StartTime = pid, processes.StartTime(pid)
		}
		return err
	})
}

func (l *Launcher) removeMachine(run *Run) error {
	l.Stage.RemoveDirectory(run.Name)
	return l.RemoveMemory(run.Name)
}
