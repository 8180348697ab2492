package cloudhypervisor

import (
	"os"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/vmtest"
)

func newStage(t *testing.T, fault string) *vmtest.Stage {
	t.Helper()
	if _, err := os.Stat("/dev/kvm"); err != nil {
		t.Skip("needs /dev/kvm, which the program is shown: ", err)
	}
	return vmtest.NewStage(t, func(scratch string) vm.Driver {
		return Driver{Program: vmtest.CopySelf(t, vmtest.FaultyName("cloud-hypervisor", fault)), Scratch: scratch, Enter: "/proc/self/exe"}
	})
}

// requests are the names of requests as the fake logs them.
func requests(names ...string) []string {
	var found []string
	for _, name := range names {
		found = append(found, "PUT /api/v1/"+name)
	}
	return found
}

func TestAMachineBootsAndIsSavedWithItsMemoryInItsFile(t *testing.T) {
	s := newStage(t, "")
	running := s.Start(t, s.Machine(t, nil, ""))
	s.CheckRequests(t, requests("vm.create")...)
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
	vmtest.CheckOutput(t, running)
	vmtest.Must(t, "pause", running.Pause())
	state := vmtest.File(t, "")
	vmtest.Must(t, "save", running.Save(state))
	vmtest.Must(t, "resume again", running.Resume())
	vmtest.Speak(t, running)
	vmtest.Must(t, "pause again", running.Pause())
	vmtest.Must(t, "save again", running.Save(vmtest.File(t, "")))
	s.CheckRequests(t, requests("vm.create", "vm.boot", "vm.pause", "vm.snapshot", "vm.resume", "vm.pause", "vm.snapshot")...)
	vmtest.Must(t, "memory", vmtest.CheckMemory(s.Memory, "booted", vmtest.MemoryMiB<<20))
	vmtest.CheckSaved(t, state)
	vmtest.CheckEnded(t, running)
}

func TestAMachineContinuesWithItsDisksAndGetsMore(t *testing.T) {
	s := newStage(t, "")
	state := s.Saved(t)
	m := s.Machine(t, state, "booted")
	m.Added = vmtest.Disks(t, 1)
	running := s.Start(t, m)
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
	// The machine with its disks is saved once more, and started from that.
	vmtest.Must(t, "pause", running.Pause())
	state = vmtest.File(t, "")
	vmtest.Must(t, "save", running.Save(state))
	running.End()
	m = s.Machine(t, state, "booted")
	m.Disks = vmtest.Disks(t, 1)
	running = s.Start(t, m)
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
	s.CheckRequests(t, requests("vm.create", "vm.boot", "vm.pause", "vm.snapshot", "vm.restore", "vm.add-disk", "vm.add-disk", "vm.resume", "vm.pause", "vm.snapshot",
		"vm.restore", "vm.resume")...)
}

func TestAMachineWithoutKVMIsRefused(t *testing.T) {
	vmtest.CheckNeedsKVM(t, Driver{})
}

func TestAConnectionIsTriedUntilTheMachineListens(t *testing.T) {
	s := newStage(t, "mute")
	running := s.Start(t, s.Machine(t, nil, ""))
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
}

func TestAMachineWhoseKernelRestartsEnds(t *testing.T) {
	s := newStage(t, "restart")
	running := s.Start(t, s.Machine(t, nil, ""))
	vmtest.Must(t, "resume", running.Resume())
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
			running, err := s.Failure(t)
			if err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%v, not %q", err, wanted)
			}
			if entries, _ := os.ReadDir(s.Scratch); running == nil && len(entries) > 0 {
				t.Errorf("a start that failed leaves %v", entries)
			}
		})
	}
}

func TestAProgramThatCannotBeStartedLeavesNothing(t *testing.T) {
	s := newStage(t, "")
	s.Driver = Driver{Program: "/does/not/exist", Scratch: s.Scratch, Enter: "/does/not/exist"}
	if _, err := s.Driver.Start(s.Machine(t, nil, "")); err == nil || !strings.Contains(err.Error(), "start Cloud Hypervisor") {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(s.Scratch); len(entries) > 0 {
		t.Errorf("it leaves %v", entries)
	}
}

func TestADamagedStateIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", `{"config.json":{}}`} {
		s := newStage(t, "")
		if _, err := s.Driver.Start(s.Machine(t, vmtest.File(t, text), "booted")); err == nil {
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
