package firecracker

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/vmtest"
)

const memoryMiB = 1

// stage is a driver whose programs are fakes.
type stage struct {
	driver Driver
	log    *os.File
	// memory is the path of the memory of the machine that was started last.
	memory string
}

func newStage(t *testing.T, fault string) *stage {
	vmtest.NeedsRoot(t)
	name := "firecracker"
	if fault != "" {
		name += "~" + fault
	}
	return &stage{driver: Driver{Program: vmtest.CopySelf(t, name), Jailer: vmtest.CopySelf(t, "jailer"), Scratch: t.TempDir()}, log: vmtest.File(t, "")}
}

// machine describes one that boots, or continues with this state and memory.
func (s *stage) machine(t *testing.T, state *os.File, memory string) vm.Machine {
	m := vm.Machine{Accel: vm.Hardware, MemoryMiB: memoryMiB, CPUs: 3, UID: vmtest.UID, Log: s.log, State: state}
	if state == nil {
		m.Kernel, m.Initrd = vmtest.File(t, "kernel"), vmtest.File(t, "initrd")
	}
	s.memory, m.Memory = vmtest.Mounted(t, memory+strings.Repeat("\x00", memoryMiB<<20-len(memory)), false)
	return m
}

func (s *stage) start(t *testing.T, m vm.Machine) vm.Running {
	t.Helper()
	running, err := s.driver.Start(m)
	if err != nil {
		text, _ := os.ReadFile(s.log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(running.End)
	return running
}

// sequence compares the requests so far, and fails if one of them was wrong.
func (s *stage) sequence(t *testing.T, wanted ...string) {
	t.Helper()
	if found := vmtest.Lines(t, s.log, "request"); strings.Join(found, "\n") != strings.Join(wanted, "\n") {
		t.Errorf("the requests were %q, not %q", found, wanted)
	}
	for _, violation := range vmtest.Lines(t, s.log, "violation") {
		t.Error(violation)
	}
}

func booting() []string {
	requests := []string{"PUT /machine-config", "PUT /boot-source"}
	for n := 0; n < MostDisks; n++ {
		requests = append(requests, fmt.Sprintf("PUT /drives/disk%d", n))
	}
	return append(requests, "PUT /vsock")
}

func speak(t *testing.T, running vm.Running) {
	t.Helper()
	conn, err := running.Link(time.Now().Add(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "hello" {
		t.Fatalf("the machine answers %q, %v", answer, err)
	}
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// template boots a machine and saves it.
func template(t *testing.T, s *stage) *os.File {
	t.Helper()
	running := s.start(t, s.machine(t, nil, ""))
	must(t, "resume", running.Resume())
	must(t, "pause", running.Pause())
	state := vmtest.File(t, "")
	must(t, "save", running.Save(state))
	running.End()
	return state
}

// isUnmounted reports whether nothing of a machine is left.
func isUnmounted(t *testing.T, scratch string) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, "mounts", err)
	return !strings.Contains(string(mounts), scratch)
}

func TestAMachineBootsAndIsSavedWithItsMemoryInItsFile(t *testing.T) {
	s := newStage(t, "")
	running := s.start(t, s.machine(t, nil, ""))
	s.sequence(t, booting()...)
	must(t, "resume", running.Resume())
	speak(t, running)
	output := make([]byte, 17)
	running.Output().SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(running.Output(), output); err != nil || string(output) != "the machine logs\n" {
		t.Errorf("the output is %q, %v", output, err)
	}
	must(t, "pause", running.Pause())
	state := vmtest.File(t, "")
	must(t, "save", running.Save(state))
	must(t, "memory", vmtest.CheckMemory(s.memory, "saved 1", memoryMiB<<20))
	must(t, "resume again", running.Resume())
	speak(t, running)
	must(t, "pause again", running.Pause())
	must(t, "save again", running.Save(vmtest.File(t, "")))
	must(t, "memory", vmtest.CheckMemory(s.memory, "saved 2", memoryMiB<<20))
	s.sequence(t, append(booting(), "PUT /actions", "PATCH /vm", "PUT /snapshot/create", "PATCH /vm", "PATCH /vm", "PUT /snapshot/create")...)
	if info, _ := state.Stat(); info.Size() == 0 {
		t.Error("the state is empty")
	}
	running.End()
	if running.Err() == nil {
		t.Error("a machine that has ended has no reason")
	}
	if _, err := running.Link(time.Now().Add(5 * time.Second)); err == nil {
		t.Error("a machine that has ended has a link")
	}
	if !isUnmounted(t, s.driver.Scratch) {
		t.Error("the jail is still mounted")
	}
}

func TestAMachineContinuesWithItsDisksAndGetsMore(t *testing.T) {
	s := newStage(t, "")
	state := template(t, s)
	disks := func() []vm.Disk {
		_, layer := vmtest.Mounted(t, "layer", true)
		_, upper := vmtest.Mounted(t, "upper", false)
		return []vm.Disk{{Number: 0, File: layer, ReadOnly: true}, {Number: WritableFrom, File: upper}}
	}
	m := s.machine(t, state, "saved 1")
	m.Added = disks()
	running := s.start(t, m)
	must(t, "resume", running.Resume())
	speak(t, running)
	// The machine with its disks is saved once more, and started from that.
	must(t, "pause", running.Pause())
	state = vmtest.File(t, "")
	must(t, "save", running.Save(state))
	running.End()
	m = s.machine(t, state, "saved 1")
	m.Disks = disks()
	running = s.start(t, m)
	must(t, "resume", running.Resume())
	speak(t, running)
	s.sequence(t, append(booting(), "PUT /actions", "PATCH /vm", "PUT /snapshot/create",
		"PUT /snapshot/load", "PATCH /drives/disk0", "PATCH /drives/disk12", "PATCH /vm", "PATCH /vm", "PUT /snapshot/create",
		"PUT /snapshot/load", "PATCH /vm")...)
}

func TestADiskWithoutADriveIsRefused(t *testing.T) {
	s := newStage(t, "")
	state := template(t, s)
	for _, disk := range []vm.Disk{{Number: MostDisks}, {Number: -1}, {Number: 0}, {Number: WritableFrom, ReadOnly: true}} {
		m := s.machine(t, state, "saved 1")
		_, disk.File = vmtest.Mounted(t, "disk", disk.ReadOnly)
		m.Added = []vm.Disk{disk}
		if running, err := s.driver.Start(m); err == nil {
			running.End()
			t.Errorf("disk %d (read-only: %v) has a drive", disk.Number, disk.ReadOnly)
		}
		if !isUnmounted(t, s.driver.Scratch) {
			t.Error("the jail is still mounted")
		}
	}
}

func TestAMachineWithoutKVMIsRefused(t *testing.T) {
	if _, err := (Driver{}).Start(vm.Machine{Accel: vm.Emulated}); err == nil || !strings.Contains(err.Error(), "AGENTPOD_VMM=qemu") {
		t.Errorf("%v", err)
	}
}

func TestTheNumberOfProcessorsIsOneThatTheProgramAccepts(t *testing.T) {
	for asked, wanted := range map[int]int{1: 1, 2: 2, 3: 4, 31: 32, 64: 32} {
		if found := processors(asked); found != wanted {
			t.Errorf("%d becomes %d", asked, found)
		}
	}
}

func TestAConnectionIsTriedUntilTheMachineListens(t *testing.T) {
	s := newStage(t, "mute")
	running := s.start(t, s.machine(t, nil, ""))
	must(t, "resume", running.Resume())
	speak(t, running)
}

func TestFailuresOfTheProgramAreReported(t *testing.T) {
	for fault, wanted := range map[string]string{
		"refuse~machine-config":  "PUT /machine-config: 400 the fake refuses this [31mrequest",
		"endless~boot-source":    "PUT /boot-source: the answer is too long",
		"die~vsock":              "PUT /vsock: ",
		"die~version":            "exit status 3",
		"refuse~version":         "did not start: GET /version: 400",
		"refuse~actions":         "PUT /actions: 400",
		"refuse~vm":              "PATCH /vm: 400",
		"refuse~snapshot.create": "PUT /snapshot/create: 400",
		"symlink":                "open saved",
		"empty":                  "saved nothing",
		"babble":                 "the program answers CONNECT with",
	} {
		t.Run(fault, func(t *testing.T) {
			s := newStage(t, fault)
			running, err := s.driver.Start(s.machine(t, nil, ""))
			if err == nil {
				defer running.End()
				err = running.Resume()
			}
			if err == nil {
				_, err = running.Link(time.Now().Add(200 * time.Millisecond))
			}
			if err == nil {
				err = running.Pause()
			}
			if err == nil {
				err = running.Save(vmtest.File(t, ""))
			}
			if err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%v, not %q", err, wanted)
			}
			if running == nil && !isUnmounted(t, s.driver.Scratch) {
				t.Error("a start that failed leaves its jail")
			}
		})
	}
}

func TestAStateThatIsNotLoadedEndsTheProgram(t *testing.T) {
	for _, fault := range []string{"refuse~snapshot.load", "die~snapshot.load", "refuse~drives.disk0"} {
		t.Run(fault, func(t *testing.T) {
			state := template(t, newStage(t, ""))
			s := newStage(t, fault)
			m := s.machine(t, state, "saved 1")
			_, layer := vmtest.Mounted(t, "layer", true)
			m.Added = []vm.Disk{{Number: 0, File: layer, ReadOnly: true}}
			if _, err := s.driver.Start(m); err == nil {
				t.Error("the machine was started")
			}
			if !isUnmounted(t, s.driver.Scratch) {
				t.Error("the jail is still mounted")
			}
		})
	}
}

func TestAProgramThatTheJailerRefusesIsReported(t *testing.T) {
	s := newStage(t, "")
	s.driver.Program = vmtest.CopySelf(t, "other")
	if _, err := s.driver.Start(s.machine(t, nil, "")); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("%v", err)
	}
}

// A schema that accepts everything would make the tests above worthless.
func TestTheFakeRefusesWrongRequests(t *testing.T) {
	for name, c := range map[string]struct {
		schema vmtest.Schema
		body   string
	}{
		"an unknown field":   {partialSchema, `{"drive_id":"a","is_read_only":true}`},
		"a wrong type":       {machineSchema, `{"vcpu_count":"1","mem_size_mib":128}`},
		"a wrong value":      {stateSchema, `{"state":"Running"}`},
		"a missing field":    {createSchema, `{"snapshot_path":"/s"}`},
		"too many":           {machineSchema, `{"vcpu_count":33,"mem_size_mib":128}`},
		"a missing inner":    {loadSchema, `{"snapshot_path":"/s","mem_backend":{"backend_type":"File"}}`},
		"a fraction":         {vsockSchema, `{"guest_cid":3.5,"uds_path":"/v"}`},
		"nothing":            {actionSchema, `null`},
		"an array of bodies": {actionSchema, `[{"action_type":"InstanceStart"}]`},
	} {
		if _, err := c.schema.Check([]byte(c.body)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
