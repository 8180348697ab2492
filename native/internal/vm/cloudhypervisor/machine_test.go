package cloudhypervisor

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/vmtest"
)

const memoryMiB = 1

// stage is a driver whose program is a fake.
type stage struct {
	driver Driver
	log    *os.File
	// memory is the path of the memory of the machine that was started last.
	memory string
}

func newStage(t *testing.T, fault string) *stage {
	vmtest.NeedsRoot(t)
	if _, err := os.Stat("/dev/kvm"); err != nil {
		t.Skip("needs /dev/kvm, which the program is shown: ", err)
	}
	name := "cloud-hypervisor"
	if fault != "" {
		name += "~" + fault
	}
	return &stage{driver: Driver{Program: vmtest.CopySelf(t, name), Scratch: t.TempDir(), Enter: "/proc/self/exe"}, log: vmtest.File(t, "")}
}

// machine describes one that boots, or continues with this state and memory.
func (s *stage) machine(t *testing.T, state *os.File, memory string) vm.Machine {
	m := vm.Machine{Accel: vm.Hardware, MemoryMiB: memoryMiB, CPUs: 2, UID: vmtest.UID, Log: s.log, State: state}
	if state == nil {
		m.Kernel, m.Initrd = vmtest.File(t, "kernel"), vmtest.File(t, "initrd")
		for _, file := range []*os.File{m.Kernel, m.Initrd} {
			file.Chmod(0o644)
		}
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
	for i, request := range wanted {
		wanted[i] = "PUT /api/v1/" + request
	}
	if found := vmtest.Lines(t, s.log, "request"); strings.Join(found, "\n") != strings.Join(wanted, "\n") {
		t.Errorf("the requests were %q, not %q", found, wanted)
	}
	for _, violation := range vmtest.Lines(t, s.log, "violation") {
		t.Error(violation)
	}
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
	if answer := make([]byte, 5); true {
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "hello" {
			t.Fatalf("the machine answers %q, %v", answer, err)
		}
	}
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// saved boots a machine and saves it.
func saved(t *testing.T, s *stage) *os.File {
	t.Helper()
	running := s.start(t, s.machine(t, nil, ""))
	must(t, "resume", running.Resume())
	must(t, "pause", running.Pause())
	state := vmtest.File(t, "")
	must(t, "save", running.Save(state))
	running.End()
	return state
}

func TestAMachineBootsAndIsSavedWithItsMemoryInItsFile(t *testing.T) {
	s := newStage(t, "")
	running := s.start(t, s.machine(t, nil, ""))
	s.sequence(t, "vm.create")
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
	must(t, "resume again", running.Resume())
	speak(t, running)
	must(t, "pause again", running.Pause())
	must(t, "save again", running.Save(vmtest.File(t, "")))
	s.sequence(t, "vm.create", "vm.boot", "vm.pause", "vm.snapshot", "vm.resume", "vm.pause", "vm.snapshot")
	must(t, "memory", vmtest.CheckMemory(s.memory, "booted", memoryMiB<<20))
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
}

func TestAMachineContinuesWithItsDisksAndGetsMore(t *testing.T) {
	s := newStage(t, "")
	state := saved(t, s)
	m := s.machine(t, state, "booted")
	_, layer := vmtest.Mounted(t, "layer", true)
	_, upper := vmtest.Mounted(t, "upper", false)
	m.Added = []vm.Disk{{Number: 0, File: layer, ReadOnly: true}, {Number: 1, File: upper}}
	running := s.start(t, m)
	must(t, "resume", running.Resume())
	speak(t, running)
	// The machine with its disks is saved once more, and started from that.
	must(t, "pause", running.Pause())
	state = vmtest.File(t, "")
	must(t, "save", running.Save(state))
	running.End()
	m = s.machine(t, state, "booted")
	_, layer = vmtest.Mounted(t, "layer", true)
	_, upper = vmtest.Mounted(t, "upper", false)
	m.Disks = []vm.Disk{{Number: 0, File: layer, ReadOnly: true}, {Number: 1, File: upper}}
	running = s.start(t, m)
	must(t, "resume", running.Resume())
	speak(t, running)
	s.sequence(t, "vm.create", "vm.boot", "vm.pause", "vm.snapshot", "vm.restore", "vm.add-disk", "vm.add-disk", "vm.resume", "vm.pause", "vm.snapshot",
		"vm.restore", "vm.resume")
}

func TestAMachineWithoutKVMIsRefused(t *testing.T) {
	if _, err := (Driver{}).Start(vm.Machine{Accel: vm.Emulated}); err == nil || !strings.Contains(err.Error(), "AGENTPOD_VMM=qemu") {
		t.Errorf("%v", err)
	}
}

func TestAConnectionIsTriedUntilTheMachineListens(t *testing.T) {
	s := newStage(t, "mute")
	running := s.start(t, s.machine(t, nil, ""))
	must(t, "resume", running.Resume())
	speak(t, running)
}

func TestAMachineWhoseKernelRestartsEnds(t *testing.T) {
	s := newStage(t, "restart")
	running := s.start(t, s.machine(t, nil, ""))
	must(t, "resume", running.Resume())
	select {
	case <-running.Done():
		if err := running.Err(); err == nil || !strings.Contains(err.Error(), "restarted") {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the machine continues")
	}
}

// failures are what a program may do to a driver, and what the driver says then.
func TestFailuresOfTheProgramAreReported(t *testing.T) {
	for fault, wanted := range map[string]string{
		"refuse~api.v1.vm.create":   "PUT vm.create: 400 the fake refuses this [31mrequest",
		"endless~api.v1.vm.create":  "PUT vm.create: the answer is too long",
		"die~api.v1.vm.create":      "PUT vm.create: ",
		"die~api.v1.vmm.ping":       "exit status 3",
		"refuse~api.v1.vmm.ping":    "did not start: GET vmm.ping: 400",
		"refuse~api.v1.vm.boot":     "PUT vm.boot: 400",
		"refuse~api.v1.vm.pause":    "PUT vm.pause: 400",
		"refuse~api.v1.vm.snapshot": "PUT vm.snapshot: 400",
		"private":                   "the memory is not in its file",
		"symlink":                   "open state.json",
		"babble":                    "the program answers CONNECT with",
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
			if entries, _ := os.ReadDir(s.driver.Scratch); running == nil && len(entries) > 0 {
				t.Errorf("a start that failed leaves %v", entries)
			}
		})
	}
}

func TestADamagedStateIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", `{"config.json":{}}`} {
		s := newStage(t, "")
		if _, err := s.driver.Start(s.machine(t, vmtest.File(t, text), "booted")); err == nil {
			t.Errorf("%q was loaded", text)
		}
	}
}

// A schema that accepts everything would make the tests above worthless.
func TestTheFakeRefusesWrongRequests(t *testing.T) {
	for name, c := range map[string]struct {
		schema vmtest.Schema
		body   string
	}{
		"an unknown field":   {diskSchema, `{"path":"/x","size":1}`},
		"a wrong type":       {diskSchema, `{"path":"/x","readonly":"yes"}`},
		"a wrong value":      {diskSchema, `{"image_type":"raw"}`},
		"a missing field":    {vsockSchema, `{"cid":3}`},
		"a number too small": {vsockSchema, `{"cid":2,"socket":"/s"}`},
		"no object":          {vmSchema, `[]`},
		"two values":         {restoreSchema, `{"source_url":"a"}{}`},
	} {
		if _, err := c.schema.Check([]byte(c.body)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := restoreSchema.Check([]byte(`{"source_url":"file:///x"}`)); err != nil {
		t.Error(err)
	}
}
