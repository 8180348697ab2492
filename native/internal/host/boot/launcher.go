// Package boot starts podd in namespaces, control groups and a root of its own, and removes everything of it
// but the sandbox's files.
package boot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/capability"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/clone"
	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/random"
	"agentpod/native/internal/unixsocket"

	"golang.org/x/sys/unix"
)

const (
	// startTimeout bounds a start. It normally takes about ten milliseconds; an overloaded machine takes
	// longer.
	startTimeout = 30 * time.Second
	// poddWait is how long podd waits for its settings, in milliseconds.
	poddWait = "3600000"
	// egressBacklog is how many connections of the egress process may wait for podd to accept them. podd
	// keeps as many.
	egressBacklog = 128
	// Hostname is the name of a sandbox until it gets its own.
	Hostname = "sandbox"
	// mostFiles is the limit on open files of podd, until the limit of its sandbox is known.
	mostFiles = 1 << 20
)

// ErrPoddEnded: podd ended before it was of use.
var ErrPoddEnded = errors.New("its podd has ended")

// A Launcher starts and ends podds.
type Launcher struct {
	Home    string
	Cgroups cgroup.Manager
	IDs     *ids.Allocator
	Stage   *mount.Stage
	// Root is the blank root that every podd starts in.
	Root string
	// OwnKernel: this is vminit, and the kernel belongs to one sandbox.
	OwnKernel bool
	// Runsc starts gVisor sandboxes.
	Runsc *gvisor.Runsc
	// RemoveMemory removes the memory of a virtual machine's run.
	RemoveMemory func(run string) error
}

// Start starts podd as the first process of new namespaces and groups, in the blank root. podd still prepares
// itself when Start returns; AwaitReady waits for it. If Start fails, the caller still ends the run.
func (l *Launcher) Start(run *Run) error {
	if run.IDs == nil {
		taken, err := l.IDs.Take()
		if err != nil {
			return err
		}
		run.SetIDs(taken)
	}
	// SECURITY: on the host's kernel, the capabilities of an engine would reach the host.
	isDelegated := run.Docker && run.Runtime == Container
	if isDelegated && !l.OwnKernel {
		return errors.New("a Docker engine needs a kernel of its own")
	}
	group, err := l.Cgroups.Create(run.Name, cgroup.Limits{Delegated: isDelegated})
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	defer group.Close()
	var files inherited
	defer files.close()
	if err := l.openFiles(run, group, &files); err != nil {
		return err
	}
	start := l.startContainer
	switch run.Runtime {
	case GVisor:
		start = l.startGVisor
	case Machine:
		start = l.startMachine
	}
	if err := start(run, group, &files); err != nil {
		return err
	}
	raiseOOMScore(run.Pid)
	return nil
}

func (l *Launcher) startContainer(run *Run, group *cgroup.Group, files *inherited) error {
	if err := l.addConfig(run, files); err != nil {
		return err
	}
	if err := l.spawn(run, group, files); err != nil {
		return fmt.Errorf("start podd: %w", err)
	}
	return nil
}

// inherited are the descriptors that podd gets, from 3 on, and the flags that name them.
type inherited struct {
	flags []string
	files []*os.File
	// owned are closed when podd has them.
	owned []*os.File
}

// add passes a file on. A nil file adds nothing.
func (i *inherited) add(flag string, file *os.File) {
	if file != nil {
		i.flags = append(i.flags, flag, strconv.Itoa(3+len(i.files)))
		i.files = append(i.files, file)
	}
}

// own is add for a file that podhost needs only until podd has it.
func (i *inherited) own(flag string, file *os.File) {
	i.add(flag, file)
	i.owned = append(i.owned, file)
}

func (i *inherited) close() {
	for _, file := range i.owned {
		file.Close()
	}
}

// openFiles opens what podd inherits, except its configuration.
func (l *Launcher) openFiles(run *Run, group *cgroup.Group, files *inherited) error {
	for _, socket := range []struct {
		flag, path string
		backlog    int
	}{{"--listener-fd", run.Socket, 4096}, {"--out-fd", run.Out, egressBacklog}} {
		file, err := unixsocket.Listen(socket.path, socket.backlog)
		if err != nil {
			return err
		}
		files.own(socket.flag, file)
	}
	files.add("--payload-group-fd", group.Payload)
	files.add("--oom-events-fd", group.OOM)
	poddEnd, parent, err := os.Pipe()
	if err != nil {
		return err
	}
	files.own("--parent-fd", poddEnd)
	run.parent = parent
	ready, poddReady, err := os.Pipe()
	if err != nil {
		return err
	}
	files.own("--ready-fd", poddReady)
	run.ready = ready
	return nil
}

// addConfig adds the configuration of the container, as a file in memory.
func (l *Launcher) addConfig(run *Run, files *inherited) error {
	fd, err := unix.MemfdCreate("config.json", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "config.json")
	files.own("--"+bundle.ContainerFlag, file)
	files.flags = append(files.flags, "--network", "--narrow-kernel-files", "--wait-ms", poddWait)
	if run.Docker {
		files.flags = append(files.flags, bundle.DockerFlag)
	}
	run.bootID = "boot-" + run.Name
	bootID, err := l.Stage.File(run.bootID, []byte(random.UUID()+"\n"), 0o444)
	if err != nil {
		return err
	}
	data, err := json.Marshal(bundle.New(bundle.Spec{Hostname: Hostname, Root: l.Root, BootID: bootID, PoddArgs: files.flags, Files: ShellFiles(), Docker: run.Docker}))
	if err != nil {
		return err
	}
	if _, err = file.Write(data); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return err
}

// namespaces are those that the kernel makes together with the process. The process makes the others as root
// inside: the root of a cgroup namespace is the group of the process that makes it, and the message queues of
// an ipc namespace belong to its user.
const (
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS
	unshared   = unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP
)

// spawn clones podd. Every descriptor of podhost that is not listed closes on exec (case LK-02).
func (l *Launcher) spawn(run *Run, group *cgroup.Group, files *inherited) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	log, err := os.OpenFile(run.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	program := clone.Program{
		Path:       l.Root + bundle.PoddPath,
		Argv:       append([]string{bundle.PoddPath}, files.flags...),
		Env:        bundle.Env,
		Files:      append([]*os.File{null, log, log}, files.files...),
		Namespaces: namespaces,
		Group:      group.Procs,
		Unshared:   unshared,
		IDs:        syscall.SysProcIDMap{ContainerID: 0, HostID: run.IDs.Base, Size: run.IDs.Count},
		Bounding:   capability.Sudo, Inheritable: capability.Setup,
	}
	if run.Docker {
		program.Namespaces &^= unix.CLONE_NEWUSER
		program.Bounding, program.Inheritable = capability.All, 0
	}
	return group.Start(func() error {
		if err := mount.BecomeOwner(run.IDs.Owner); err != nil {
			return err
		}
		pid, err := program.Start()
		if err == nil {
			run.Pid, run.StartTime = pid, processes.StartTime(pid)
		}
		return err
	})
}

// leastOOMScore is the lowest score of any process of a sandbox. When the whole machine runs out of memory,
// the kernel kills sandboxes first.
const leastOOMScore = "100"

// raiseOOMScore sets podd's score, and so that of everything it starts. A score that a process with
// CAP_SYS_RESOURCE has set cannot be lowered without that capability. If podhost lacks it (an ordinary user,
// some containers), a payload could lower its score below podd's, so the score stays as it is.
//
// SECURITY: RS-17.
func raiseOOMScore(pid int) {
	path := "/proc/" + strconv.Itoa(pid) + "/oom_score_adj"
	// Lowering the score below the inherited one takes the capability.
	if os.WriteFile(path, []byte("-1"), 0) == nil {
		os.WriteFile(path, []byte(leastOOMScore), 0)
	}
}

// A report is the one line that podd writes when it serves, or fails to.
type report struct {
	Network netns.Level `json:"network"`
	Error   string      `json:"error"`
	// Marker and Levels are those of a virtual machine.
	Marker string                  `json:"marker"`
	Levels map[string]cgroup.Level `json:"levels"`
}

const maxReport = 4 << 10

// AwaitReady returns when podd serves. It returns at once if podd has ended.
func (l *Launcher) AwaitReady(run *Run) error {
	if run.ready == nil {
		return nil
	}
	defer func() {
		run.ready.Close()
		run.ready = nil
		if !run.Awaits {
			l.Stage.RemoveFile(run.bootID)
		}
	}()
	limit := startTimeout
	if run.Machine != nil {
		limit = run.Machine.ReadyWithin
	}
	run.ready.SetReadDeadline(time.Now().Add(limit))
	line, err := bufio.NewReader(io.LimitReader(run.ready, maxReport)).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return run.Failure(run.Name, ErrPoddEnded)
	}
	var found report
	if err == nil {
		err = json.Unmarshal(line, &found)
	}
	if err == nil && found.Error != "" {
		err = errors.New(found.Error)
	}
	if err != nil {
		return run.Failure(run.Name, err)
	}
	run.Network = found.Network
	if run.Machine != nil {
		run.Machine.Marker, run.Machine.Levels = found.Marker, found.Levels
	}
	return nil
}
