// Package supervise is the process outside that a virtual machine belongs to. It starts the machine, passes
// connections to podd inside, and ends with it.
package supervise

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"agentpod/native/internal/mount"
	"agentpod/native/internal/vm/drivers"
	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

// Command is podhost's subcommand that becomes the supervisor of a machine.
const Command = "vm-supervisor"

// A Plan is what a supervisor does. It has no paths of sandboxes: files are descriptors.
type Plan struct {
	// VMM is the name of the program that runs the machine, of package drivers. Programs says where it is.
	VMM      string
	Programs drivers.Programs
	// Scratch is an empty directory, on podhost's stage. Stage is the stage: what is mounted there belongs to
	// others.
	Scratch, Stage string
	Accel          string
	MemoryMiB      int64
	CPUs           int
	UID            int
	Generation     string
	// Marker is that of the machine's link.
	Marker string
	// IsTemplate: the machine is booted, saved and ended.
	IsTemplate bool
	// Begin is what a machine from a template becomes. It is nil for a machine that continues a snapshot.
	Begin *order.Sandbox
	// Waits: the programs of a machine that continues a snapshot stay frozen until it becomes a sandbox.
	Waits bool
	// Identity is new for each machine. The supervisor adds the time.
	Identity order.Identity
	Disks    []PlannedDisk
	// Files are the numbers of the descriptors, by name.
	Files map[string]int
}

// A PlannedDisk is a disk whose descriptor is named disk and its number.
type PlannedDisk struct {
	Number   int
	ReadOnly bool
}

// Names of descriptors.
const (
	fileAPI     = "api"
	fileEgress  = "egress"
	fileParent  = "parent"
	fileReady   = "ready"
	fileControl = "control"
	fileGroup   = "group"
	fileMemory  = "memory"
	fileKernel  = "kernel"
	fileInitrd  = "initrd"
	fileState   = "state"
)

func diskFile(number int) string { return "disk" + strconv.Itoa(number) }

// A Launch starts a supervisor. The supervisor is the first process of a pid namespace, so everything of the
// machine ends with it, and it ends with the exit code of podd.
type Launch struct {
	Plan Plan
	// API and Egress are listening sockets. Parent and Ready are the pipes of a boot.Run. Control is a
	// listening socket for Hold. A template has no sockets.
	API, Egress, Parent, Ready, Control *os.File
	// Group is the cgroup.procs file of the v2 group to join; nil on v1.
	Group *os.File
	// Memory, Kernel, Initrd and State are those of a vm.Machine. A template is written to State.
	Memory, Kernel, Initrd, State *os.File
	// Disks are the files of the plan's disks, in the same order.
	Disks []*os.File
	Log   *os.File
}

// Close closes the files of the machine, which the supervisor has.
func (l *Launch) Close() {
	for _, file := range append([]*os.File{l.Memory, l.Kernel, l.Initrd, l.State}, l.Disks...) {
		if file != nil {
			file.Close()
		}
	}
}

// Mount replaces the memory and the disks by detached mounts, for a program that takes no descriptors.
func (l *Launch) Mount(uid int) error {
	idmap, err := mount.NewOwner(uid)
	if err != nil {
		return err
	}
	defer idmap.Close()
	replace := func(file **os.File, readOnly bool) error {
		attrs := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC)
		if readOnly {
			attrs |= unix.MOUNT_ATTR_RDONLY
		}
		mounted, err := mount.FileFor(*file, idmap, attrs)
		if err == nil {
			(*file).Close()
			*file = mounted
		}
		return err
	}
	if err := replace(&l.Memory, false); err != nil {
		return err
	}
	for i, disk := range l.Plan.Disks {
		if err := replace(&l.Disks[i], disk.ReadOnly); err != nil {
			return err
		}
	}
	return nil
}

// Start returns the supervisor's process id. The calling thread is locked and in the v1 groups.
func (l *Launch) Start() (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), l.Log.Fd(), l.Log.Fd()}
	l.Plan.Files = map[string]int{}
	add := func(name string, file *os.File) {
		if file != nil {
			l.Plan.Files[name] = len(files)
			files = append(files, file.Fd())
		}
	}
	for name, file := range map[string]*os.File{fileAPI: l.API, fileEgress: l.Egress, fileParent: l.Parent, fileReady: l.Ready, fileControl: l.Control,
		fileGroup: l.Group, fileMemory: l.Memory, fileKernel: l.Kernel, fileInitrd: l.Initrd, fileState: l.State} {
		add(name, file)
	}
	for i, disk := range l.Plan.Disks {
		add(diskFile(disk.Number), l.Disks[i])
	}
	plan, err := l.Plan.file()
	if err != nil {
		return 0, err
	}
	defer plan.Close()
	argv := []string{"podhost", Command, "--plan-fd", strconv.Itoa(len(files))}
	files = append(files, plan.Fd())
	pid, _, err := syscall.StartProcess("/proc/self/exe", argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS},
	})
	if err != nil {
		return 0, fmt.Errorf("start the supervisor: %w", err)
	}
	return pid, nil
}

// file is the plan as a file in memory.
func (p Plan) file() (*os.File, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "plan")
	if _, err = file.Write(data); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
