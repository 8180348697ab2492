package cloudhypervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/vm/confine"
	"agentpod/native/internal/vm/link"
	"agentpod/native/internal/vm/vmtest"
)

// TestMain also plays podhost and Cloud Hypervisor.
func TestMain(m *testing.M) {
	vmtest.Main(m, func() (bool, error) {
		switch {
		case strings.HasPrefix(os.Args[0], "cloud-hypervisor"):
			return true, play()
		case len(os.Args) > 1 && os.Args[1] == confine.Command:
			return true, confine.Enter(os.Args[2:])
		}
		return false, nil
	})
}

// Schemas, from the published description of the API.
var (
	zoneSchema = vmtest.Object("id size", map[string]vmtest.Schema{"id": vmtest.String, "size": vmtest.Integer, "file": vmtest.String,
		"mergeable": vmtest.Boolean, "shared": vmtest.Boolean, "hugepages": vmtest.Boolean, "hugepage_size": vmtest.Integer,
		"host_numa_node": vmtest.Integer, "hotplug_size": vmtest.Integer, "hotplugged_size": vmtest.Integer, "prefault": vmtest.Boolean})
	memorySchema = vmtest.Object("size", map[string]vmtest.Schema{"size": vmtest.Integer, "hotplug_size": vmtest.Integer,
		"hotplugged_size": vmtest.Integer, "mergeable": vmtest.Boolean, "hotplug_method": vmtest.String, "shared": vmtest.Boolean,
		"hugepages": vmtest.Boolean, "hugepage_size": vmtest.Integer, "prefault": vmtest.Boolean, "thp": vmtest.Boolean,
		"zones": vmtest.Array(zoneSchema)})
	cpusSchema = vmtest.Object("boot_vcpus max_vcpus", map[string]vmtest.Schema{"boot_vcpus": vmtest.Between(1, 254),
		"max_vcpus": vmtest.Between(1, 254), "kvm_hyperv": vmtest.Boolean, "max_phys_bits": vmtest.Integer, "nested": vmtest.Boolean})
	payloadSchema = vmtest.Object("", map[string]vmtest.Schema{"firmware": vmtest.String, "kernel": vmtest.String, "cmdline": vmtest.String,
		"initramfs": vmtest.String, "igvm": vmtest.String, "host_data": vmtest.String})
	diskSchema = vmtest.Object("", map[string]vmtest.Schema{"path": vmtest.String, "readonly": vmtest.Boolean, "direct": vmtest.Boolean,
		"iommu": vmtest.Boolean, "num_queues": vmtest.Integer, "queue_size": vmtest.Integer, "vhost_user": vmtest.Boolean,
		"vhost_socket": vmtest.String, "pci_segment": vmtest.Integer, "id": vmtest.String, "serial": vmtest.String,
		"rate_limit_group": vmtest.String, "backing_files": vmtest.Boolean, "sparse": vmtest.Boolean,
		"image_type": vmtest.Enum("FlatVmdk", "FixedVhd", "Qcow2", "Raw", "Vhdx", "Unknown")})
	consoleSchema = vmtest.Object("mode", map[string]vmtest.Schema{"file": vmtest.String, "socket": vmtest.String,
		"mode": vmtest.Enum("Off", "Pty", "Tty", "File", "Socket", "Null")})
	vsockSchema = vmtest.Object("cid socket", map[string]vmtest.Schema{"cid": vmtest.Between(3, 1<<32), "socket": vmtest.String,
		"iommu": vmtest.Boolean, "pci_segment": vmtest.Integer, "id": vmtest.String})
	balloonSchema = vmtest.Object("size", map[string]vmtest.Schema{"size": vmtest.Integer, "deflate_on_oom": vmtest.Boolean,
		"free_page_reporting": vmtest.Boolean})
	vmSchema = vmtest.Object("payload", map[string]vmtest.Schema{"cpus": cpusSchema, "memory": memorySchema, "payload": payloadSchema,
		"rng": vmtest.Object("src", map[string]vmtest.Schema{"src": vmtest.String, "iommu": vmtest.Boolean}), "balloon": balloonSchema,
		"serial": consoleSchema, "console": consoleSchema, "vsock": vsockSchema, "disks": vmtest.Array(diskSchema),
		"iommu": vmtest.Boolean, "watchdog": vmtest.Boolean, "pvpanic": vmtest.Boolean, "landlock_enable": vmtest.Boolean})
	snapshotSchema = vmtest.Object("", map[string]vmtest.Schema{"destination_url": vmtest.String})
	restoreSchema  = vmtest.Object("source_url", map[string]vmtest.Schema{"source_url": vmtest.String, "prefault": vmtest.Boolean,
		"memory_restore_mode": vmtest.Enum("Copy", "OnDemand", "CopyOnWrite"), "resume": vmtest.Boolean})
)

// fake is the state of a Cloud Hypervisor.
type fake struct {
	vmtest.Program
	// state is empty, Created, Running or Paused.
	state  string
	config vmConfig
	memory *os.File
	events *os.File
}

// play is the program. Everything that it uses has to be in its own root.
func play() error {
	if os.Geteuid() != vmtest.UID {
		return fmt.Errorf("the program runs as user %d", os.Geteuid())
	}
	api, monitor, err := descriptors(os.Args[1:])
	if err != nil {
		return err
	}
	for _, path := range []string{"/dev/kvm", "/dev/urandom"} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/etc/passwd"); err == nil {
		return errors.New("the program sees files of the host")
	}
	f := &fake{events: os.NewFile(monitor, "events")}
	f.Fault, f.Log = vmtest.FaultIn(os.Args[0]), os.Stderr
	f.Routes = map[string]vmtest.Route{
		"GET /api/v1/vmm.ping":    {Answer: `{"version":"v51.1.0","build_version":"v51.1.0","pid":1,"features":["kvm"]}`},
		"PUT /api/v1/vm.create":   {Body: &vmSchema, Do: f.create},
		"PUT /api/v1/vm.boot":     {Do: f.boot},
		"PUT /api/v1/vm.pause":    {Do: f.change("Running", "Paused")},
		"PUT /api/v1/vm.resume":   {Do: f.change("Paused", "Running")},
		"PUT /api/v1/vm.add-disk": {Body: &diskSchema, Do: f.addDisk, Answer: `{"id":"disk","bdf":"0000:00:06.0"}`},
		"PUT /api/v1/vm.snapshot": {Body: &snapshotSchema, Do: f.snapshot},
		"PUT /api/v1/vm.restore":  {Body: &restoreSchema, Do: f.restore},
	}
	// The descriptor is a listening socket.
	listener, err := net.FileListener(os.NewFile(api, "api"))
	if err != nil {
		return err
	}
	return f.Serve(listener)
}

// descriptors reads the command line, which has nothing else.
func descriptors(args []string) (api, monitor uintptr, err error) {
	wanted := []string{"--api-socket", "fd=", "--event-monitor", "fd=", "--seccomp", "true"}
	if len(args) != len(wanted) {
		return 0, 0, fmt.Errorf("the command line is %q", args)
	}
	var found [6]int
	for i, arg := range args {
		if !strings.HasPrefix(arg, wanted[i]) {
			return 0, 0, fmt.Errorf("the command line is %q", args)
		}
		found[i], _ = strconv.Atoi(strings.TrimPrefix(arg, "fd="))
	}
	return uintptr(found[1]), uintptr(found[3]), nil
}

func (f *fake) change(from, to string) func(map[string]any) error {
	return func(map[string]any) error {
		if f.state != from {
			return fmt.Errorf("the machine is %q, not %s", f.state, from)
		}
		f.state = to
		return nil
	}
}

func (f *fake) create(body map[string]any) error {
	if f.state != "" {
		return errors.New("there is a machine")
	}
	text, _ := json.Marshal(body)
	if err := json.Unmarshal(text, &f.config); err != nil {
		return err
	}
	for _, path := range []string{f.config.Payload.Kernel, f.config.Payload.Initramfs} {
		if _, err := os.ReadFile(path); err != nil {
			return err
		}
	}
	if err := f.open(); err != nil {
		return err
	}
	f.state = "Created"
	return nil
}

// open opens what a machine needs, by the paths of its configuration.
func (f *fake) open() error {
	zone := f.config.Memory.Zones[0]
	if f.config.Memory.Size != 0 || len(f.config.Memory.Zones) != 1 || !zone.Shared {
		return errors.New("the memory has to be one shared zone")
	}
	var err error
	if f.memory, err = os.OpenFile(zone.File, os.O_RDWR, 0); err != nil {
		return err
	}
	info, err := f.memory.Stat()
	if err != nil || info.Size() != zone.Size {
		return fmt.Errorf("the memory has %d bytes, %v", info.Size(), err)
	}
	for _, disk := range f.config.Disks {
		if err := openDisk(disk); err != nil {
			return err
		}
	}
	if err := f.ServeVsock(f.config.Vsock.Socket, link.VsockPort, func() bool { return f.state == "Running" }); err != nil {
		return err
	}
	return nil
}

func openDisk(disk diskConfig) error {
	if disk.ImageType != "Raw" {
		return errors.New("the type of the disk is not named")
	}
	if file, err := os.OpenFile(disk.Path, os.O_RDWR, 0); disk.ReadOnly == (err == nil) {
		return fmt.Errorf("a disk with readonly %v: %v", disk.ReadOnly, err)
	} else if err == nil {
		file.Close()
	}
	_, err := os.ReadFile(disk.Path)
	return err
}

func (f *fake) boot(map[string]any) error {
	if f.state != "Created" {
		return fmt.Errorf("the machine is %q", f.state)
	}
	f.state = "Running"
	fmt.Print(vmtest.Booted)
	fmt.Fprint(f.events, "{\n  \"source\": \"vm\",\n  \"event\": \"booted\"\n}\n\n")
	if f.Fault.Kind == vmtest.Restart {
		time.AfterFunc(50*time.Millisecond, func() { fmt.Fprint(f.events, "{\n  \"source\": \"vm\",\n  \"event\": \"rebooting\"\n}\n\n") })
	}
	_, err := f.memory.WriteAt([]byte("booted"), 0)
	return err
}

func (f *fake) addDisk(body map[string]any) error {
	if f.state == "" {
		return errors.New("there is no machine")
	}
	text, _ := json.Marshal(body)
	var disk diskConfig
	if err := json.Unmarshal(text, &disk); err != nil {
		return err
	}
	for _, other := range f.config.Disks {
		if other.ID == disk.ID {
			return errors.New("there is such a disk")
		}
	}
	f.config.Disks = append(f.config.Disks, disk)
	return openDisk(disk)
}

func directory(url any) (string, error) {
	text, _ := url.(string)
	if !strings.HasPrefix(text, "file:///") {
		return "", fmt.Errorf("the directory is %q", text)
	}
	info, err := os.Stat(text[len("file://"):])
	if err != nil || !info.IsDir() {
		return "", fmt.Errorf("%q is no directory: %v", text, err)
	}
	return text[len("file://"):], nil
}

func (f *fake) snapshot(body map[string]any) error {
	if f.state != "Paused" {
		return fmt.Errorf("the machine is %q", f.state)
	}
	dir, err := directory(body["destination_url"])
	if err != nil {
		return err
	}
	config, _ := json.Marshal(f.config)
	ranges := ""
	if f.Fault.Kind == "private" {
		ranges = "memory"
	}
	for name, content := range map[string]string{"config.json": string(config), "state.json": `{"cpu":1}`, "memory-ranges": ranges} {
		if f.Fault.Kind == "symlink" && name == "state.json" {
			if err := os.Symlink("/proc/version", filepath.Join(dir, name)); err != nil {
				return err
			}
		} else if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) restore(body map[string]any) error {
	if f.state != "" {
		return errors.New("there is a machine")
	}
	dir, err := directory(body["source_url"])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &f.config); err != nil {
		return err
	}
	if state, err := os.ReadFile(filepath.Join(dir, "state.json")); err != nil || string(state) != `{"cpu":1}` {
		return fmt.Errorf("the state is %s, %v", state, err)
	}
	if err := f.open(); err != nil {
		return err
	}
	if head := make([]byte, 6); true {
		if _, err := f.memory.ReadAt(head, 0); err != nil || string(head) != "booted" {
			return fmt.Errorf("the memory begins with %q, %v", head, err)
		}
	}
	f.state = "Paused"
	return nil
}
