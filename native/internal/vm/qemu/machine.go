package qemu

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/confine"

	"golang.org/x/sys/unix"
)

const (
	loadTimeout = 60 * time.Second
	saveTimeout = 5 * time.Minute
)

// Driver starts machines with a QEMU program.
type Driver struct {
	// Program is the path of the program.
	Program string
	// Scratch is an empty directory where the program's own root is assembled.
	Scratch string
}

// running is a machine.
type running struct {
	cmd          *exec.Cmd
	monitor      *monitor
	link, output net.Conn

	done chan struct{}
	// failure is why the program ended, after done is closed.
	failure error
	ending  sync.Once
}

// Start starts QEMU, and loads the machine's state.
func (d Driver) Start(m vm.Machine) (vm.Running, error) {
	r := &running{done: make(chan struct{})}
	control, err := r.spawn(d, m)
	if err != nil {
		return nil, err
	}
	if r.monitor, err = newMonitor(control); err != nil {
		r.End()
		if r.failure != nil {
			err = r.failure
		}
		return nil, fmt.Errorf("QEMU did not start: %w", err)
	}
	if err := r.complete(m); err != nil {
		r.End()
		return nil, err
	}
	return r, nil
}

// complete gives the machine its disks and its state.
func (r *running) complete(m vm.Machine) error {
	if err := r.ignoreShared(); err != nil {
		return err
	}
	for _, disk := range m.Disks {
		if err := r.attach(disk); err != nil {
			return err
		}
	}
	if m.State != nil {
		if err := r.load(m.State); err != nil {
			return err
		}
	}
	for _, disk := range m.Added {
		if err := r.attach(disk); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts the program in namespaces of its own (confine.Command), and returns its control socket.
func (r *running) spawn(d Driver, m vm.Machine) (*net.UnixConn, error) {
	files := &inherited{}
	defer files.close()
	control, err := files.socket()
	if err != nil {
		return nil, err
	}
	link, err := files.socket()
	if err != nil {
		return nil, err
	}
	output, err := files.socket()
	if err != nil {
		return nil, err
	}
	numbers := descriptors{control: 3, link: 4, output: 5, memory: files.add(m.Memory)}
	if m.Kernel != nil {
		numbers.kernel, numbers.initrd = files.add(m.Kernel), files.add(m.Initrd)
	}
	root := confine.Root{Program: d.Program, Scratch: d.Scratch, UID: m.UID, KVM: m.Accel == vm.Hardware,
		Shown: []string{"/usr/share/qemu", "/usr/share/seabios", hugePages + "enabled", hugePages + "hpage_pmd_size"}}
	args := append(root.Arguments(), commandLine(m, numbers)...)
	r.cmd = exec.Command("/proc/self/exe", args...)
	r.cmd.Env = []string{}
	r.cmd.ExtraFiles = files.files
	r.cmd.Stdout, r.cmd.Stderr = m.Log, m.Log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: confine.Namespaces}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	r.link, r.output = link, output
	go r.wait()
	return control, nil
}

func (r *running) wait() {
	err := r.cmd.Wait()
	if err == nil {
		err = errEnded
	}
	r.failure = fmt.Errorf("QEMU: %w", err)
	close(r.done)
	r.link.Close()
	r.output.Close()
}

var errEnded = fmt.Errorf("the machine was switched off")

func (r *running) Link(time.Time) (net.Conn, error) { return r.link, nil }
func (r *running) Output() net.Conn                 { return r.output }
func (r *running) Done() <-chan struct{}            { return r.done }

func (r *running) Err() error {
	select {
	case <-r.done:
		return r.failure
	default:
		return nil
	}
}

func (r *running) End() {
	r.ending.Do(func() { r.cmd.Process.Kill() })
	<-r.done
}

func (r *running) Resume() error { return r.monitor.call("cont", nil, nil) }
func (r *running) Pause() error  { return r.monitor.call("stop", nil, nil) }

// attach passes the disk's descriptor to QEMU, which then has it in a set of its own.
func (r *running) attach(disk vm.Disk) error {
	set := disk.Number + 1
	if err := r.monitor.callWith("add-fd", keyed{"fdset-id": set}, nil, disk.File); err != nil {
		return err
	}
	node := fmt.Sprintf("disk%d", disk.Number)
	file := keyed{"driver": "file", "filename": fmt.Sprintf("/dev/fdset/%d", set), "locking": "off",
		"read-only": disk.ReadOnly, "auto-read-only": false, "discard": "unmap"}
	if err := r.monitor.call("blockdev-add", keyed{"driver": "raw", "node-name": node, "read-only": disk.ReadOnly, "discard": "unmap", "file": file}, nil); err != nil {
		return err
	}
	return r.monitor.call("device_add", keyed{"driver": "scsi-hd", "id": "dev" + node, "drive": node, "bus": disksBus, "scsi-id": disk.Number, "lun": 0}, nil)
}

// ignoreShared leaves the memory where it is, in its file, when the state is loaded and saved.
func (r *running) ignoreShared() error {
	return r.monitor.call("migrate-set-capabilities", keyed{"capabilities": []keyed{{"capability": "x-ignore-shared", "state": true}}}, nil)
}

func (r *running) load(state *os.File) error {
	if err := r.monitor.callWith("getfd", keyed{"fdname": "state"}, nil, state); err != nil {
		return err
	}
	if err := r.monitor.call("migrate-incoming", keyed{"uri": "fd:state"}, nil); err != nil {
		return err
	}
	return r.monitor.awaitMigration(loadTimeout)
}

func (r *running) Save(state *os.File) error {
	if err := r.monitor.callWith("getfd", keyed{"fdname": "saved"}, nil, state); err != nil {
		return err
	}
	if err := r.monitor.call("migrate", keyed{"uri": "fd:saved"}, nil); err != nil {
		return err
	}
	return r.monitor.awaitMigration(saveTimeout)
}

// inherited are the descriptors that QEMU gets, from 3 on.
type inherited struct {
	files []*os.File
	owned []*os.File
}

func (i *inherited) add(file *os.File) int {
	i.files = append(i.files, file)
	return 2 + len(i.files)
}

// socket returns our end of a new pair, of which QEMU inherits the other.
func (i *inherited) socket() (*net.UnixConn, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs, ours := os.NewFile(uintptr(ends[1]), "socket"), os.NewFile(uintptr(ends[0]), "socket")
	i.add(theirs)
	i.owned = append(i.owned, theirs)
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func (i *inherited) close() {
	for _, file := range i.owned {
		file.Close()
	}
}
