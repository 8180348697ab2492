package firecracker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/control"
	"agentpod/native/internal/vm/link"

	"golang.org/x/sys/unix"
)

const (
	title       = "Firecracker"
	callTimeout = 30 * time.Second
	loadTimeout = 60 * time.Second
	saveTimeout = 5 * time.Minute
	// namespaces are those that the jailer is started in. It makes its own mount namespace.
	namespaces = unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
)

// Driver starts machines with Firecracker.
type Driver struct {
	// Program and Jailer are the paths of the two programs, which are of the same version.
	Program, Jailer string
	// Scratch is an empty directory where the jail is made.
	Scratch string
}

// running is a machine.
type running struct {
	*control.Process
	*control.Channels
	client *control.Client
	jail   *jail
	// isBooted: the machine has run, or was loaded.
	isBooted bool
}

// Start starts Firecracker, and loads the machine's state.
func (d Driver) Start(m vm.Machine) (vm.Running, error) {
	if m.Accel != vm.Hardware {
		return nil, errors.New("Firecracker needs KVM: use QEMU (AGENTPOD_VMM=qemu) on a machine without it")
	}
	r := &running{}
	if err := r.spawn(d, m); err != nil {
		return nil, err
	}
	if err := r.client.AwaitReady("/version", r.Process, callTimeout); err != nil {
		r.End()
		return nil, fmt.Errorf("%s did not start: %w", title, err)
	}
	if err := r.complete(m); err != nil {
		r.End()
		return nil, err
	}
	return r, nil
}

// spawn makes the jail and starts the jailer, which becomes Firecracker.
func (r *running) spawn(d Driver, m vm.Machine) (err error) {
	// Firecracker inherits this: the memory of a machine is never written to a core file.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	// The jailer names the jail after the file that a symbolic link leads to. Releases have their version in it.
	if d.Program, err = filepath.EvalSymlinks(d.Program); err != nil {
		return err
	}
	if r.jail, err = newJail(d.Scratch, d.Program, m); err != nil {
		return err
	}
	output, serial, err := control.Pair()
	if err != nil {
		r.jail.remove()
		return err
	}
	defer serial.Close()
	cmd := exec.Command(d.Jailer, d.arguments(m.UID)...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	// Firecracker's serial port is its standard input and output, where it also logs.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = serial, serial, m.Log
	cmd.SysProcAttr = control.Attributes(namespaces)
	r.Channels = control.NewChannels(output, func(ctx context.Context) (net.Conn, error) { return r.jail.folder.Dial(ctx, vsockName) })
	r.client = control.NewClient("", func(ctx context.Context) (net.Conn, error) { return r.jail.folder.Dial(ctx, apiName) })
	r.Process, err = control.Start(cmd, title, func() {
		r.Channels.Close()
		r.client.Close()
		r.jail.remove()
	})
	if err != nil {
		r.Channels.Close()
		r.jail.remove()
	}
	return err
}

// complete describes or loads the machine, and puts disks into its drives.
func (r *running) complete(m vm.Machine) error {
	if m.State == nil {
		if len(m.Disks)+len(m.Added) > 0 {
			return errors.New("Firecracker gives disks to machines that were loaded only")
		}
		for _, one := range bootRequests(m) {
			if err := r.do(one, callTimeout); err != nil {
				return err
			}
		}
		return nil
	}
	if err := r.do(loadRequest(), loadTimeout); err != nil {
		return err
	}
	r.isBooted = true
	if err := r.jail.folder.Remove(stateName); err != nil {
		return err
	}
	for _, disk := range m.Added {
		if err := r.do(attachRequest(disk), callTimeout); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) do(one request, limit time.Duration) error {
	return r.client.Do(one.method, one.path, one.body, limit)
}

func (r *running) Link(deadline time.Time) (net.Conn, error) {
	return r.Connect(link.VsockPort, deadline)
}

// Resume starts a machine that has not run yet. Kernel and initial RAM disk are not needed afterwards.
func (r *running) Resume() error {
	if r.isBooted {
		return r.do(request{"PATCH", "/vm", state{"Resumed"}}, callTimeout)
	}
	if err := r.do(request{"PUT", "/actions", action{"InstanceStart"}}, callTimeout); err != nil {
		return err
	}
	r.isBooted = true
	for _, name := range []string{kernelName, initrdName} {
		if err := r.jail.folder.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) Pause() error { return r.do(request{"PATCH", "/vm", state{"Paused"}}, callTimeout) }

// Save completes the memory, and copies the rest out of the jail.
func (r *running) Save(to *os.File) error {
	if err := r.jail.folder.Remove(savedName); err != nil {
		return err
	}
	err := r.do(saveRequest(), saveTimeout)
	// The machine drops its connections when it continues: Firecracker tells it to while it saves it, whether or
	// not that succeeds. Firecracker itself keeps them until something is sent, which would be lost.
	r.EndLink()
	if err != nil {
		return err
	}
	saved, err := r.jail.folder.Read(savedName, mostState)
	if err != nil {
		return err
	}
	if len(saved) == 0 {
		return errors.New("Firecracker saved nothing")
	}
	if err := r.jail.folder.Remove(savedName); err != nil {
		return err
	}
	_, err = io.Copy(to, bytes.NewReader(saved))
	return err
}

// Supports reports whether a program can be used with the jailer, which looks at the name of the file that a
// symbolic link leads to.
func Supports(program string) bool {
	file, err := filepath.EvalSymlinks(program)
	return err == nil && strings.Contains(filepath.Base(file), "firecracker")
}
