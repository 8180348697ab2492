package machines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/random"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/link"
	"agentpod/native/internal/vm/supervise"

	"golang.org/x/sys/unix"
)

// A Shape is what machines from one template have in common.
type Shape struct {
	MemoryMiB int64
	CPUs      int
	// Docker: root inside may run a container engine.
	Docker bool `json:",omitempty"`
}

// A Template is a machine that has booted and that no sandbox has used.
type Template struct {
	Shape
	Accel  string
	Marker string
	// Memory and State are files, which every machine gets a copy of.
	Memory, State string
}

type templateRecord struct {
	Accel, Marker string
	Shape         Shape
	// Parts has a digest of the programs and the kernel.
	Parts string
}

const (
	// kvmTimeout is how long a machine may take to boot with hardware support. Some hosts have the device
	// and run no machine.
	kvmTimeout = 10 * time.Second
	// bootTimeout is a little longer than that of the supervisor.
	bootTimeout = 95 * time.Second
	// tries is how often an emulated machine is booted before the error is reported: one of many hangs.
	tries = 2
)

// Template returns the template of a shape. It boots a machine if there is none yet.
func (s *Store) Template(shape Shape) (*Template, error) {
	version, err := s.Check()
	if err != nil {
		return nil, err
	}
	defer s.Locks.Lock(fmt.Sprintf("template %v", shape))()
	accels := []string{vm.Emulated}
	if s.Program.NeedsKVM {
		accels = []string{vm.Hardware}
	} else if s.mayHaveKVM(version) {
		accels = []string{vm.Hardware, vm.Emulated}
	}
	var failure error
	for _, accel := range accels {
		name, err := s.templateName(version, shape, accel)
		if err != nil {
			return nil, err
		}
		if found, err := s.readTemplate(name, shape); found != nil || err != nil {
			return found, err
		}
		found, err := s.buildTemplate(version, name, shape, accel)
		if found != nil {
			s.prune(templatePrefix, name, mostTemplates)
			return found, nil
		}
		failure = err
		if accel == vm.Hardware && !s.Program.NeedsKVM {
			s.Log.Printf("machines: KVM is not used: %v", err)
			s.noteNoKVM(version)
		}
	}
	return nil, hostproto.Errorf(hostproto.FailedPrecondition, "qemu.boot", "a virtual machine did not boot: %v", failure).
		WithHint("logs/podhost.log in the state directory has more; the next sandbox tries it again")
}

// AnyTemplate returns a template of any shape, which shows that machines boot; nil if there is none.
func (s *Store) AnyTemplate() (*Template, error) {
	version, err := s.Check()
	if err != nil {
		return nil, err
	}
	parts, err := s.parts(version)
	if err != nil {
		return nil, err
	}
	for _, name := range s.names() {
		dir, err := s.dir(name)
		if err != nil || !strings.HasPrefix(name, templatePrefix) {
			continue
		}
		var record templateRecord
		if there, err := readRecord(dir, &record); err == nil && there && record.Parts == parts {
			return &Template{Shape: record.Shape, Accel: record.Accel}, nil
		}
	}
	return nil, nil
}

// templateName has a digest of everything that a template depends on.
func (s *Store) templateName(version string, shape Shape, accel string) (string, error) {
	parts, err := s.parts(version)
	if err != nil {
		return "", err
	}
	if shape.Docker {
		list, err := s.dockerModules()
		if err != nil {
			return "", err
		}
		parts += string(list)
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\n%+v\n%s", parts, shape, accel)))
	return templatePrefix + hex.EncodeToString(sum[:])[:12], nil
}

// parts has a digest of what all templates depend on: the programs, the kernel and the processor.
func (s *Store) parts(version string) (string, error) {
	programs, err := s.programs()
	if err != nil {
		return "", err
	}
	release, err := readAll(filepath.Join(s.Kernel, "release"), 4<<10)
	if err != nil {
		return "", err
	}
	list, err := s.modules()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\n%s\n%s\n%s\n%s", s.Program.Release(version, ""), programs, release, list, processorModel())))
	return hex.EncodeToString(sum[:]), nil
}

// programs returns a digest of podd and vminit, which do not change while podhost runs.
func (s *Store) programs() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digests != "" {
		return s.digests, nil
	}
	sum := sha256.New()
	for _, path := range []string{s.Podd, s.Init} {
		content, err := readAll(path, mostInitrd)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%d\n", len(content))
		sum.Write(content)
	}
	s.digests = hex.EncodeToString(sum.Sum(nil))
	return s.digests, nil
}

// processorModel is what a machine with hardware support sees of the host's processor.
func processorModel() string {
	text, _ := readAll("/proc/cpuinfo", 8<<10)
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "model name") {
			return line
		}
	}
	return ""
}

func (s *Store) readTemplate(name string, shape Shape) (*Template, error) {
	dir, err := s.dir(name)
	if err != nil {
		return nil, err
	}
	var record templateRecord
	if there, err := readRecord(dir, &record); err != nil || !there {
		return nil, err
	}
	now := time.Now()
	os.Chtimes(filepath.Join(dir, recordFile), now, now)
	return &Template{Shape: shape, Accel: record.Accel, Marker: record.Marker, Memory: filepath.Join(dir, memoryFile), State: filepath.Join(dir, stateFile)}, nil
}

// buildTemplate boots a machine, and saves it.
func (s *Store) buildTemplate(version, name string, shape Shape, accel string) (*Template, error) {
	parts, err := s.parts(version)
	if err != nil {
		return nil, err
	}
	limit, count := bootTimeout, tries
	if accel == vm.Hardware {
		limit, count = kvmTimeout, 1
	}
	var failure error
	for n := 0; n < count; n++ {
		clock := stopwatch.New()
		dir, err := s.make(name)
		if err != nil {
			return nil, err
		}
		marker, err := s.bootTemplate(dir, shape, accel, limit)
		clock.Lap("boot")
		s.Log.Printf("machines: %s (%d MiB, %d processors, %s): %s, error %v", name, shape.MemoryMiB, shape.CPUs, accel, clock, err)
		if err == nil {
			err = complete(dir, templateRecord{accel, marker, shape, parts})
		}
		if err == nil {
			return s.readTemplate(name, shape)
		}
		failure = err
		if err := s.Remove(name); err != nil {
			return nil, err
		}
	}
	return nil, failure
}

func (s *Store) bootTemplate(dir string, shape Shape, accel string, limit time.Duration) (marker string, err error) {
	launch := &supervise.Launch{Plan: supervise.Plan{VMM: s.Program.Name, Programs: s.Program.Programs, Accel: accel, MemoryMiB: shape.MemoryMiB, CPUs: shape.CPUs,
		Generation: random.UUID(), Marker: link.FirstMarker, IsTemplate: true}}
	defer launch.Close()
	const create = os.O_RDWR | os.O_CREATE | os.O_EXCL
	if launch.Memory, err = os.OpenFile(filepath.Join(dir, memoryFile), create, 0o600); err != nil {
		return "", err
	}
	if err := launch.Memory.Truncate(shape.MemoryMiB << 20); err != nil {
		return "", err
	}
	if launch.State, err = os.OpenFile(filepath.Join(dir, stateFile), create, 0o600); err != nil {
		return "", err
	}
	if launch.Kernel, err = os.Open(filepath.Join(s.Kernel, s.Program.Kernel)); err != nil {
		return "", err
	}
	if launch.Initrd, err = s.initrd(shape.Docker); err != nil {
		return "", err
	}
	run := boot.NewRun(s.Home, "sh"+random.Hex(7), boot.Machine)
	run.Machine = &boot.MachineStart{Launch: launch, ReadyWithin: limit}
	defer func() {
		if undo := s.Launcher.End(run, stopwatch.New()); undo != nil && err == nil {
			err = undo
		}
	}()
	if err := s.Launcher.Start(run); err != nil {
		return "", err
	}
	if err := s.Launcher.AwaitReady(run); err != nil {
		return "", err
	}
	if run.Machine.Marker == "" {
		return "", errors.New("the machine has no link")
	}
	// Nothing but podhost reads the template from now on.
	memory, err := os.OpenFile(filepath.Join(dir, memoryFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer memory.Close()
	if err := memory.Chown(0, 0); err != nil {
		return "", err
	}
	for _, file := range []*os.File{memory, launch.State} {
		if err := file.Sync(); err != nil {
			return "", err
		}
	}
	return run.Machine.Marker, nil
}

// prune removes the entries of a kind that were not used for longest.
func (s *Store) prune(prefix, keep string, most int) {
	type found struct {
		name string
		used time.Time
	}
	var all []found
	for _, name := range s.names() {
		if dir, err := s.dir(name); err == nil && strings.HasPrefix(name, prefix) && name != keep {
			if info, err := os.Stat(filepath.Join(dir, recordFile)); err == nil {
				all = append(all, found{name, info.ModTime()})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].used.After(all[j].used) })
	for n := most - 1; n < len(all); n++ {
		if err := s.Remove(all[n].name); err != nil {
			s.Log.Printf("machines: %s: %v", all[n].name, err)
		}
	}
}

const kvmDevice = "/dev/kvm"

// mayHaveKVM reports whether hardware support is worth a try. A try that failed is remembered until the next
// boot of the host.
func (s *Store) mayHaveKVM(version string) bool {
	if _, err := os.Stat(kvmDevice); err != nil {
		return false
	}
	noted, _ := os.ReadFile(s.noKVMFile())
	return string(noted) != kvmKey(version)
}

func (s *Store) noteNoKVM(version string) {
	if err := os.WriteFile(s.noKVMFile(), []byte(kvmKey(version)), 0o600); err != nil {
		s.Log.Printf("machines: %v", err)
	}
}

func (s *Store) noKVMFile() string { return filepath.Join(s.Home, "run", "no-kvm") }

func kvmKey(version string) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(boot)) + " " + version
}
