package cloudhypervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"agentpod/native/internal/unixsocket"
	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/confine"
	"agentpod/native/internal/vm/control"
	"agentpod/native/internal/vm/link"
)

const (
	title = "Cloud Hypervisor"
	// apiPath begins the path of every request.
	apiPath      = "/api/v1/"
	callTimeout  = 30 * time.Second
	loadTimeout  = 60 * time.Second
	saveTimeout  = 5 * time.Minute
	mostShared   = 64 << 20
	mostState    = 32 << 20
	monitorBytes = 4 << 10
)

// Driver starts machines with Cloud Hypervisor.
type Driver struct {
	// Program is the path of the program.
	Program string
	// Scratch is an empty directory where the program's own root is assembled.
	Scratch string
	// Enter is the program that has confine.Command; empty for this one.
	Enter string
}

// running is a machine.
type running struct {
	*control.Process
	*control.Channels
	client *control.Client
	shared *control.Folder
	uid    int
	// isBooted: the machine has run, or was loaded.
	isBooted bool
}

// Start starts the program, and loads the machine's state.
func (d Driver) Start(m vm.Machine) (vm.Running, error) {
	if m.Accel != vm.Hardware {
		return nil, errors.New("Cloud Hypervisor needs KVM: use QEMU (AGENTPOD_VMM=qemu) on a machine without it")
	}
	r := &running{uid: m.UID}
	descriptors, err := r.spawn(d, m)
	if err != nil {
		return nil, err
	}
	if err := r.client.AwaitReady("vmm.ping", r.Process, callTimeout); err != nil {
		r.End()
		return nil, fmt.Errorf("%s did not start: %w", title, err)
	}
	if err := r.complete(m, descriptors); err != nil {
		r.End()
		return nil, err
	}
	return r, nil
}

// payload are the numbers of the descriptors that a machine boots from.
type payload struct{ kernel, initrd int }

// spawn starts the program in namespaces of its own.
func (r *running) spawn(d Driver, m vm.Machine) (at payload, err error) {
	socket := filepath.Join(d.Scratch, "api")
	listener, err := unixsocket.Listen(socket, 4)
	if err != nil {
		return at, err
	}
	defer listener.Close()
	defer func() {
		if err != nil {
			os.Remove(socket)
		}
	}()
	if r.shared, err = control.NewFolder(m.UID, mostShared); err != nil {
		return at, fmt.Errorf("the directory of %s: %w", title, err)
	}
	events, monitor, err := os.Pipe()
	if err != nil {
		r.shared.Close()
		return at, err
	}
	defer monitor.Close()
	output, serial, err := control.Pair()
	if err != nil {
		r.shared.Close()
		events.Close()
		return at, err
	}
	defer serial.Close()
	cmd := exec.Command(d.enter())
	add := func(file *os.File) int {
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		return 2 + len(cmd.ExtraFiles)
	}
	args := []string{"--api-socket", fmt.Sprintf("fd=%d", add(listener)), "--event-monitor", fmt.Sprintf("fd=%d", add(monitor)), "--seccomp", "true"}
	root := confine.Root{Program: d.Program, Scratch: d.Scratch, UID: m.UID, KVM: true, Random: true,
		Mounts: map[string]int{memoryPath: add(m.Memory), sharedPath: add(r.shared.File())}}
	for _, disk := range append(append([]vm.Disk{}, m.Disks...), m.Added...) {
		root.Mounts[diskPath(disk.Number)] = add(disk.File)
	}
	if m.Kernel != nil {
		at = payload{add(m.Kernel), add(m.Initrd)}
	}
	cmd.Args = append(cmd.Args, append(root.Arguments(), args...)...)
	cmd.Env = []string{}
	// The program reads the serial port from its standard input.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = serial, serial, m.Log
	cmd.SysProcAttr = control.Attributes(confine.Namespaces)
	r.Channels = control.NewChannels(output, func(ctx context.Context) (net.Conn, error) { return r.shared.Dial(ctx, vsockName) })
	r.client = control.NewClient(apiPath, func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", socket)
	})
	r.Process, err = control.Start(cmd, title, func() {
		r.Channels.Close()
		r.client.Close()
		r.shared.Close()
		os.Remove(socket)
	})
	if err != nil {
		r.Channels.Close()
		r.shared.Close()
		events.Close()
		return at, err
	}
	go r.watch(events)
	return at, nil
}

func (d Driver) enter() string {
	if d.Enter != "" {
		return d.Enter
	}
	return "/proc/self/exe"
}

// watch ends a machine whose kernel restarts it: the program would boot it again. It looks for the names of
// events and does not parse them.
func (r *running) watch(events *os.File) {
	defer events.Close()
	window := make([]byte, 0, monitorBytes)
	for chunk := make([]byte, monitorBytes/2); ; {
		n, err := events.Read(chunk)
		if err != nil {
			return
		}
		if keep := monitorBytes / 4; len(window) > keep {
			window = append(window[:0], window[len(window)-keep:]...)
		}
		window = append(window, chunk[:n]...)
		for _, event := range []string{"rebooting", "panic"} {
			if bytes.Contains(window, []byte(`"`+event+`"`)) {
				r.Fail(fmt.Errorf("the machine's kernel has failed or restarted (%s)", event))
				return
			}
		}
	}
}

// complete describes or loads the machine, and adds disks.
func (r *running) complete(m vm.Machine, at payload) error {
	if m.State != nil {
		if err := r.load(m.State); err != nil {
			return err
		}
	} else {
		config := configuration(m, at.kernel, at.initrd)
		for _, one := range m.Disks {
			config.Disks = append(config.Disks, disk(one))
		}
		if err := r.put("vm.create", config, callTimeout); err != nil {
			return err
		}
	}
	for _, one := range m.Added {
		if err := r.put("vm.add-disk", disk(one), callTimeout); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) put(path string, body any, limit time.Duration) error {
	return r.client.Do(http.MethodPut, path, body, limit)
}

func (r *running) Link(deadline time.Time) (net.Conn, error) {
	return r.Connect(link.VsockPort, deadline)
}

// Resume boots a machine that has not run yet.
func (r *running) Resume() error {
	if !r.isBooted {
		r.isBooted = true
		return r.put("vm.boot", nil, callTimeout)
	}
	return r.put("vm.resume", nil, callTimeout)
}

func (r *running) Pause() error { return r.put("vm.pause", nil, callTimeout) }

// stateFiles are the files of a saved machine, besides its memory. All of them are JSON.
var stateFiles = []string{"config.json", "state.json"}

// memoryRanges is the file for memory that is not in a file of its own.
const memoryRanges = "memory-ranges"

const stateURL = "file://" + sharedPath + "/" + stateName

// Save lets the program write its files to a new directory, and packs them into one.
func (r *running) Save(state *os.File) error {
	dir, err := r.makeState()
	if err != nil {
		return err
	}
	defer dir.Close()
	err = r.put("vm.snapshot", snapshotConfig{stateURL}, saveTimeout)
	var packed map[string]json.RawMessage
	if err == nil {
		packed, err = collect(dir)
	}
	if undo := r.removeState(dir); err == nil {
		err = undo
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(state).Encode(packed)
}

// makeState makes the directory for the files of a saved machine.
func (r *running) makeState() (*control.Folder, error) {
	if err := r.shared.Make(stateName, r.uid); err != nil {
		return nil, err
	}
	return r.shared.Sub(stateName)
}

func (r *running) removeState(dir *control.Folder) error {
	for _, name := range append([]string{memoryRanges}, stateFiles...) {
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	return r.shared.RemoveDir(stateName)
}

func collect(dir *control.Folder) (map[string]json.RawMessage, error) {
	// INVARIANT: the memory is complete in its own file, because it is mapped shared.
	if _, err := dir.Read(memoryRanges, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the memory is not in its file: %w", err)
	}
	packed := map[string]json.RawMessage{}
	for _, name := range stateFiles {
		text, err := dir.Read(name, mostState)
		if err != nil {
			return nil, err
		}
		if !json.Valid(text) {
			return nil, fmt.Errorf("%s is not JSON", name)
		}
		packed[name] = text
	}
	return packed, nil
}

// load unpacks the files and lets the program read them.
func (r *running) load(state *os.File) error {
	var packed map[string]json.RawMessage
	if err := json.NewDecoder(io.NewSectionReader(state, 0, 4*mostState)).Decode(&packed); err != nil {
		return fmt.Errorf("the state of the machine is damaged: %w", err)
	}
	dir, err := r.makeState()
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range stateFiles {
		content, there := packed[name]
		if !there {
			return fmt.Errorf("the state of the machine has no %s", name)
		}
		if err := dir.Write(name, r.uid, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	// The program opens it, also if it is empty.
	if err := dir.Write(memoryRanges, r.uid, bytes.NewReader(nil)); err != nil {
		return err
	}
	if err := r.put("vm.restore", restoreConfig{stateURL}, loadTimeout); err != nil {
		return err
	}
	r.isBooted = true
	return r.removeState(dir)
}
