package boot

import (
	"fmt"
	"os"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/random"
	"agentpod/native/internal/unixsocket"
)

// Runtime is what a sandbox runs on.
type Runtime string

const (
	// Container is the host's kernel, in namespaces. It is the empty text in records.
	Container Runtime = ""
	// GVisor is gVisor's kernel, in user space.
	GVisor Runtime = "gvisor"
	// Machine is a virtual machine with a kernel of its own.
	Machine Runtime = "qemu"
)

// startGVisor starts the supervisor of a gVisor sandbox, in the blank root.
func (l *Launcher) startGVisor(run *Run, group *cgroup.Group, files *inherited) error {
	runsc, err := l.Runsc.Program()
	if err != nil {
		return err
	}
	// The sandbox's user namespace is made by runsc. Mounts are shifted by one of the same range.
	if run.user, err = mount.NewUserNamespace(run.IDs.Range, run.IDs.Owner); err != nil {
		return err
	}
	directory, err := l.Stage.Directory(run.Name)
	if err != nil {
		return err
	}
	slot, err := l.Stage.Slot(run.Name, lateroot.Root)
	if err != nil {
		return err
	}
	run.bootID, run.BootID = "boot-"+run.Name, random.UUID()
	if run.restore != nil && run.restore.BootID != "" {
		run.BootID = run.restore.BootID
	}
	bootID, err := l.Stage.File(run.bootID, []byte(run.BootID+"\n"), 0o444)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(run.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	control, err := unixsocket.Listen(run.Control, 1)
	if err != nil {
		return err
	}
	defer control.Close()
	image, hostname := "", Hostname
	if run.restore != nil {
		image, hostname = run.restore.Image, run.restore.Hostname
		root, err := run.restore.Mount(run)
		if err != nil {
			return err
		}
		if err := l.Stage.Attach(run.Name, lateroot.Root, root); err != nil {
			return err
		}
	}
	launch := gvisor.Launch{
		Runsc: runsc, Name: run.Name, Directory: directory, Stage: l.Stage.Path(), Log: log, Group: group.Procs,
		API: files.named("--listener-fd"), Egress: files.named("--out-fd"), Parent: files.named("--parent-fd"), Ready: files.named("--ready-fd"),
		Control: control, Image: image, Awaits: run.Awaits, IsCopy: run.restore != nil && run.restore.BootID == "",
		Spec: gvisor.Spec{Hostname: hostname, Root: l.Root, Slot: slot, BootID: bootID, Files: ShellFiles(), IDs: run.IDs.Range, Docker: run.Docker,
			PoddArgs: []string{"--arrivals-fd", "0", "--wait-ms", poddWait}},
	}
	return group.Start(func() error {
		pid, err := launch.Start()
		if err == nil {
			run.Pid, run.StartTime = pid, processes.StartTime(pid)
		}
		return err
	})
}

// removeGVisor removes what podhost's stage has of a run that has ended. The stage of an earlier podhost went
// with the supervisor.
func (l *Launcher) removeGVisor(run *Run) {
	if run.user != nil {
		run.user.Close()
		run.user = nil
	}
	l.Stage.RemoveSlot(run.Name)
	l.Stage.RemoveDirectory(run.Name)
}

// A Restore is a run that continues the processes of a snapshot.
type Restore struct {
	// Image is the directory with their memory.
	Image    string
	Hostname string
	// BootID is empty for a new one.
	BootID string
	// Mount sets the limits of the run and mounts its root, and returns where. It is called before anything
	// of the snapshot runs.
	Mount func(run *Run) (root string, err error)
}

// StartRestored starts a gVisor sandbox with the memory of a snapshot, and returns when it runs. The caller
// ends the run if it fails. The run is new, or awaits its memory.
func (l *Launcher) StartRestored(run *Run, restore Restore) error {
	if run.Awaits {
		return l.restoreAwaiting(run, restore)
	}
	run.restore = &restore
	if err := l.Start(run); err != nil {
		return err
	}
	if err := l.AwaitReady(run); err != nil {
		return err
	}
	l.Stage.ReleaseSlot(run.Name)
	return nil
}

func (l *Launcher) restoreAwaiting(run *Run, restore Restore) error {
	hostname := restore.Hostname
	if restore.BootID != "" {
		hostname, run.BootID = "", restore.BootID
		// Nothing inside has read the former one.
		if _, err := l.Stage.File(run.bootID, []byte(run.BootID+"\n"), 0o444); err != nil {
			return err
		}
	}
	root, err := restore.Mount(run)
	if err != nil {
		return err
	}
	if err := l.Stage.Attach(run.Name, lateroot.Root, root); err != nil {
		return err
	}
	if err := gvisor.Restore(run.Control, restore.Image, hostname); err != nil {
		return run.Failure(run.Name, err)
	}
	run.Awaits = false
	l.Stage.RemoveFile(run.bootID)
	l.Stage.ReleaseSlot(run.Name)
	return nil
}

// named returns the file that a flag names, or nil.
func (i *inherited) named(flag string) *os.File {
	for n, file := range i.files {
		if i.flags[2*n] == flag {
			return file
		}
	}
	return nil
}

// EnterRoot gives a gVisor sandbox in the blank root the root that is mounted at this path.
func (l *Launcher) EnterRoot(run *Run, root string, order lateroot.Order, openFiles uint64) error {
	if err := l.Stage.Attach(run.Name, lateroot.Root, root); err != nil {
		return err
	}
	if err := run.tellLateRoot(order, openFiles); err != nil {
		return fmt.Errorf("podd could not enter its root: %w", err)
	}
	l.Stage.ReleaseSlot(run.Name)
	return nil
}
