package firecracker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentpod/native/internal/vm/link"
	"agentpod/native/internal/vm/vmtest"

	"golang.org/x/sys/unix"
)

// TestMain also plays the jailer, which becomes Firecracker.
func TestMain(m *testing.M) {
	vmtest.Main(m, func() (bool, error) {
		if filepath.Base(os.Args[0]) != "jailer" {
			return false, nil
		}
		return true, playJailer(os.Args[1:])
	})
}

// playJailer does what the documentation of the jailer says, in the same process. It knows the options that
// the documentation lists, and refuses every other.
func playJailer(args []string) error {
	known := map[string]bool{"--id": true, "--exec-file": true, "--uid": true, "--gid": true, "--parent-cgroup": true, "--cgroup-version": true,
		"--cgroup": true, "--chroot-base-dir": true, "--netns": true, "--resource-limit": true}
	given := map[string]string{}
	for len(args) > 0 && args[0] != "--" {
		if !known[args[0]] || len(args) < 2 {
			return fmt.Errorf("the jailer does not know %q", args[0])
		}
		given[args[0]] = args[1]
		args = args[2:]
	}
	for _, name := range []string{"--id", "--exec-file", "--uid", "--gid"} {
		if given[name] == "" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	program, err := filepath.EvalSymlinks(given["--exec-file"])
	if err != nil {
		return err
	}
	if !strings.Contains(filepath.Base(program), "firecracker") {
		return errors.New("the program has another name")
	}
	if given["--resource-limit"] != "no-file=1024" || given["--cgroup"] != "" {
		return fmt.Errorf("the limits are %q", given)
	}
	if os.Getpid() != 1 {
		return errors.New("the jailer has no pid namespace of its own")
	}
	if interfaces, err := net.Interfaces(); err != nil || len(interfaces) != 1 {
		return fmt.Errorf("the jailer has the network %v, %v", interfaces, err)
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err != nil || len(fds) > 10 {
		return fmt.Errorf("the jailer inherits %d descriptors, %v", len(fds), err)
	}
	root := filepath.Join(given["--chroot-base-dir"], filepath.Base(program), given["--id"], "root")
	uid, err := strconv.Atoi(given["--uid"])
	if err != nil {
		return err
	}
	if err := enterJail(root, uid); err != nil {
		return err
	}
	if len(args) != 3 || args[1] != "--api-sock" {
		return fmt.Errorf("the arguments of Firecracker are %q", args)
	}
	return play(filepath.Base(program), args[2])
}

// enterJail leaves out the mount namespace: it would be that of one thread.
func enterJail(root string, uid int) error {
	for _, enter := range []func() error{func() error { return unix.Chroot(root) }, func() error { return os.Chdir("/") }, func() error { return os.MkdirAll("/dev", 0o755) },
		func() error { return unix.Mknod("/dev/kvm", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 232))) },
		func() error { return os.Chown("/", uid, uid) }, func() error { return syscall.Setgid(uid) }, func() error { return syscall.Setuid(uid) }} {
		if err := enter(); err != nil {
			return err
		}
	}
	return nil
}

// Schemas, from the published description of the API.
var (
	machineSchema = vmtest.Object("mem_size_mib vcpu_count", map[string]vmtest.Schema{"cpu_template": vmtest.Enum("C3", "T2", "T2S", "T2CL", "T2A", "V1N1", "None"),
		"smt": vmtest.Boolean, "mem_size_mib": vmtest.Integer, "track_dirty_pages": vmtest.Boolean, "vcpu_count": vmtest.Between(1, 32),
		"huge_pages": vmtest.Enum("None", "2M")})
	bootSchema = vmtest.Object("kernel_image_path", map[string]vmtest.Schema{"boot_args": vmtest.String, "initrd_path": vmtest.String,
		"kernel_image_path": vmtest.String})
	driveSchema = vmtest.Object("drive_id is_root_device", map[string]vmtest.Schema{"drive_id": vmtest.String, "partuuid": vmtest.String,
		"is_root_device": vmtest.Boolean, "cache_type": vmtest.Enum("Unsafe", "Writeback"), "is_read_only": vmtest.Boolean,
		"path_on_host": vmtest.String, "io_engine": vmtest.Enum("Sync", "Async"), "socket": vmtest.String})
	partialSchema = vmtest.Object("drive_id", map[string]vmtest.Schema{"drive_id": vmtest.String, "path_on_host": vmtest.String})
	vsockSchema   = vmtest.Object("guest_cid uds_path", map[string]vmtest.Schema{"guest_cid": vmtest.Between(3, 1<<32), "uds_path": vmtest.String,
		"vsock_id": vmtest.String})
	actionSchema = vmtest.Object("action_type", map[string]vmtest.Schema{"action_type": vmtest.Enum("FlushMetrics", "InstanceStart", "SendCtrlAltDel")})
	stateSchema  = vmtest.Object("state", map[string]vmtest.Schema{"state": vmtest.Enum("Paused", "Resumed")})
	createSchema = vmtest.Object("mem_file_path snapshot_path", map[string]vmtest.Schema{"mem_file_path": vmtest.String, "snapshot_path": vmtest.String,
		"snapshot_type": vmtest.Enum("Full", "Diff")})
	loadSchema = vmtest.Object("snapshot_path", map[string]vmtest.Schema{"enable_diff_snapshots": vmtest.Boolean, "mem_file_path": vmtest.String,
		"mem_backend":   vmtest.Object("backend_type backend_path", map[string]vmtest.Schema{"backend_type": vmtest.Enum("File", "Uffd"), "backend_path": vmtest.String}),
		"snapshot_path": vmtest.String, "resume_vm": vmtest.Boolean})
)

// fake is the state of a Firecracker.
type fake struct {
	vmtest.Program
	// state is empty, Running or Paused.
	state   string
	machine *machineConfiguration
	boot    *bootSource
	saved
	// tracksDirty: pages that change are known.
	tracksDirty bool
	saves       int
}

// saved is what the state file of a machine has.
type saved struct {
	Drives map[string]drive
	Vsock  *vsock
}

// play is the program, in its jail.
func play(name, socket string) error {
	if os.Geteuid() != vmtest.UID {
		return fmt.Errorf("the program runs as user %d", os.Geteuid())
	}
	f := &fake{saved: saved{Drives: map[string]drive{}}}
	f.Fault, f.Log = vmtest.FaultIn(name), os.Stderr
	f.Routes = map[string]vmtest.Route{
		"GET /version":         {Answer: `{"firecracker_version":"1.12.0"}`},
		"PUT /machine-config":  {Body: &machineSchema, Do: before(f, func(m machineConfiguration) error { f.machine, f.tracksDirty = &m, m.TrackDirty; return checkCPUs(m) })},
		"PUT /boot-source":     {Body: &bootSchema, Do: before(f, func(b bootSource) error { f.boot = &b; return readable(b.Kernel, b.Initrd) })},
		"PUT /vsock":           {Body: &vsockSchema, Do: before(f, func(v vsock) error { f.Vsock = &v; return nil })},
		"PUT /actions":         {Body: &actionSchema, Do: before(f, f.act)},
		"PUT /snapshot/load":   {Body: &loadSchema, Do: before(f, f.load)},
		"PATCH /vm":            {Body: &stateSchema, Do: after(f, f.change)},
		"PUT /snapshot/create": {Body: &createSchema, Do: after(f, f.create)},
	}
	for n := 0; n < MostDisks; n++ {
		id := driveID(n)
		f.Routes["PUT /drives/"+id] = vmtest.Route{Body: &driveSchema, Do: before(f, func(d drive) error { return f.setDrive(id, d) })}
		f.Routes["PATCH /drives/"+id] = vmtest.Route{Body: &partialSchema, Do: after(f, func(d partialDrive) error { return f.patchDrive(id, d) })}
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return f.Serve(listener)
}

// before is a request for a machine that has not run, after one for a machine that has.
func before[T any](f *fake, do func(T) error) func(map[string]any) error { return when(f, false, do) }
func after[T any](f *fake, do func(T) error) func(map[string]any) error  { return when(f, true, do) }

func when[T any](f *fake, hasRun bool, do func(T) error) func(map[string]any) error {
	return func(body map[string]any) error {
		if hasRun != (f.state != "") {
			return fmt.Errorf("the machine is %q", f.state)
		}
		text, _ := json.Marshal(body)
		var value T
		if err := json.Unmarshal(text, &value); err != nil {
			return err
		}
		return do(value)
	}
}

func checkCPUs(m machineConfiguration) error {
	if m.CPUs > 1 && m.CPUs%2 == 1 {
		return errors.New("the number of processors is odd")
	}
	return nil
}

func readable(paths ...string) error {
	for _, path := range paths {
		if _, err := os.ReadFile(path); err != nil {
			return err
		}
	}
	return nil
}

func openDrive(d drive) error {
	flags := os.O_RDWR
	if d.ReadOnly {
		flags = os.O_RDONLY
	}
	file, err := os.OpenFile(d.Path, flags, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if d.ReadOnly && strings.HasPrefix(d.Path, "/disks/") {
		if file, err := os.OpenFile(d.Path, os.O_RDWR, 0); err == nil {
			file.Close()
			return errors.New("a read-only disk can be written to")
		}
	}
	return nil
}

func (f *fake) setDrive(id string, d drive) error {
	if d.ID != id || d.Path == "" {
		return fmt.Errorf("the drive is %+v", d)
	}
	if !d.ReadOnly && d.Cache != "Writeback" {
		return errors.New("a drive that can be written to ignores flushes")
	}
	f.Drives[id] = d
	return openDrive(d)
}

func (f *fake) patchDrive(id string, d partialDrive) error {
	found, known := f.Drives[id]
	if !known || d.ID != id {
		return fmt.Errorf("there is no drive %s", d.ID)
	}
	found.Path = d.Path
	f.Drives[id] = found
	return openDrive(found)
}

func (f *fake) act(a action) error {
	if a.Type != "InstanceStart" || f.boot == nil || f.machine == nil {
		return fmt.Errorf("a machine without a kernel does not do %s", a.Type)
	}
	if err := f.listen(); err != nil {
		return err
	}
	fmt.Print(vmtest.Booted)
	f.state = "Running"
	return nil
}

func (f *fake) listen() error {
	if f.Vsock == nil {
		return nil
	}
	return f.ServeVsock(f.Vsock.Path, link.VsockPort, func() bool { return f.state == "Running" })
}

func (f *fake) change(s state) error {
	f.state = map[string]string{"Paused": "Paused", "Resumed": "Running"}[s.State]
	return nil
}

func (f *fake) create(s snapshotCreate) error {
	if f.state != "Paused" {
		return fmt.Errorf("the machine is %q", f.state)
	}
	if s.Type == "Diff" && !f.tracksDirty {
		return errors.New("changed pages are not known")
	}
	f.Reset()
	// Changed pages are written into the file, which is not shortened.
	memory, err := os.OpenFile(s.Memory, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	f.saves++
	if _, err := memory.WriteAt([]byte(fmt.Sprintf("saved %d", f.saves)), 0); err != nil {
		return err
	}
	text, _ := json.Marshal(f.saved)
	if f.Fault.Kind == "symlink" {
		return os.Symlink("/version", s.State)
	}
	if f.Fault.Kind == "empty" {
		text = nil
	}
	return os.WriteFile(s.State, text, 0o600)
}

func (f *fake) load(l snapshotLoad) error {
	if f.machine != nil || f.boot != nil || len(f.Drives) > 0 || f.Vsock != nil {
		return errors.New("the machine is configured")
	}
	text, err := os.ReadFile(l.State)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &f.saved); err != nil {
		return err
	}
	for _, d := range f.Drives {
		if err := openDrive(d); err != nil {
			return err
		}
	}
	memory, err := os.ReadFile(l.Memory.Path)
	if err != nil || !strings.HasPrefix(string(memory), "saved ") {
		return fmt.Errorf("the memory is %.20q, %v", memory, err)
	}
	f.tracksDirty, f.state = l.TrackDirty, "Paused"
	if l.Resume {
		f.state = "Running"
	}
	return f.listen()
}
