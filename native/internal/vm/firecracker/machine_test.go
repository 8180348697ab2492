package firecracker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/vmtest"
)

func newStage(t *testing.T, fault string) *vmtest.Stage {
	t.Helper()
	return newStageOf(t, func() string { return vmtest.CopySelf(t, vmtest.FaultyName("firecracker", fault)) })
}

// newStageOf is a stage with this program.
func newStageOf(t *testing.T, program func() string) *vmtest.Stage {
	t.Helper()
	return vmtest.NewStage(t, func(scratch string) vm.Driver {
		return Driver{Program: program(), Jailer: vmtest.CopySelf(t, "jailer"), Scratch: scratch}
	})
}

func booting() []string {
	requests := []string{"PUT /machine-config", "PUT /boot-source"}
	for n := 0; n < MostDisks; n++ {
		requests = append(requests, fmt.Sprintf("PUT /drives/disk%d", n))
	}
	return append(requests, "PUT /vsock")
}

// isUnmounted reports whether nothing of a machine is left.
func isUnmounted(t *testing.T, scratch string) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	vmtest.Must(t, "mounts", err)
	return !strings.Contains(string(mounts), scratch)
}

func TestAMachineBootsAndIsSavedWithItsMemoryInItsFile(t *testing.T) {
	s := newStage(t, "")
	running := s.Start(t, s.Machine(t, nil, ""))
	s.CheckRequests(t, booting()...)
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
	vmtest.CheckOutput(t, running)
	vmtest.Must(t, "pause", running.Pause())
	state := vmtest.File(t, "")
	vmtest.Must(t, "save", running.Save(state))
	vmtest.Must(t, "memory", vmtest.CheckMemory(s.Memory, "saved 1", vmtest.MemoryMiB<<20))
	vmtest.Must(t, "resume again", running.Resume())
	vmtest.Speak(t, running)
	vmtest.Must(t, "pause again", running.Pause())
	vmtest.Must(t, "save again", running.Save(vmtest.File(t, "")))
	vmtest.Must(t, "memory", vmtest.CheckMemory(s.Memory, "saved 2", vmtest.MemoryMiB<<20))
	s.CheckRequests(t, append(booting(), "PUT /actions", "PATCH /vm", "PUT /snapshot/create", "PATCH /vm", "PATCH /vm", "PUT /snapshot/create")...)
	vmtest.CheckSaved(t, state)
	vmtest.CheckEnded(t, running)
	if !isUnmounted(t, s.Scratch) {
		t.Error("the jail is still mounted")
	}
}

func TestTheLinkEndsWhenItsMachineIsSaved(t *testing.T) {
	s := newStage(t, "")
	running := s.Start(t, s.Machine(t, nil, ""))
	vmtest.Must(t, "resume", running.Resume())
	conn, err := running.Link(time.Now().Add(5 * time.Second))
	vmtest.Must(t, "link", err)
	// It stays when the machine only stands still.
	vmtest.Must(t, "pause", running.Pause())
	conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a pause has ended it: %v", err)
	}
	vmtest.Must(t, "save", running.Save(vmtest.File(t, "")))
	conn.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it looks usable after the machine was saved: %v", err)
	}
	vmtest.Must(t, "resume again", running.Resume())
	vmtest.Speak(t, running)
}

func TestTheProgramCanBeASymbolicLink(t *testing.T) {
	s := newStageOf(t, func() string {
		link := filepath.Join(t.TempDir(), "firecracker")
		vmtest.Must(t, "link", os.Symlink(vmtest.CopySelf(t, "firecracker-v1.12.1-x86_64"), link))
		return link
	})
	running := s.Start(t, s.Machine(t, nil, ""))
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
}

func TestAMachineContinuesWithItsDisksAndGetsMore(t *testing.T) {
	s := newStage(t, "")
	state := s.Saved(t)
	m := s.Machine(t, state, "saved 1")
	m.Added = vmtest.Disks(t, WritableFrom)
	running := s.Start(t, m)
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
	// The machine with its disks is saved once more, and started from that.
	vmtest.Must(t, "pause", running.Pause())
	state = vmtest.File(t, "")
	vmtest.Must(t, "save", running.Save(state))
	running.End()
	m = s.Machine(t, state, "saved 1")
	m.Disks = vmtest.Disks(t, WritableFrom)
	running = s.Start(t, m)
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
	s.CheckRequests(t, append(booting(), "PUT /actions", "PATCH /vm", "PUT /snapshot/create",
		"PUT /snapshot/load", "PATCH /drives/disk0", "PATCH /drives/disk12", "PATCH /vm", "PATCH /vm", "PUT /snapshot/create",
		"PUT /snapshot/load", "PATCH /vm")...)
}

func TestADiskWithoutADriveIsRefused(t *testing.T) {
	s := newStage(t, "")
	state := s.Saved(t)
	for _, disk := range []vm.Disk{{Number: MostDisks}, {Number: -1}, {Number: 0}, {Number: WritableFrom, ReadOnly: true}} {
		m := s.Machine(t, state, "saved 1")
		_, disk.File = vmtest.Mounted(t, "disk", disk.ReadOnly)
		m.Added = []vm.Disk{disk}
		if running, err := s.Driver.Start(m); err == nil {
			running.End()
			t.Errorf("disk %d (read-only: %v) has a drive", disk.Number, disk.ReadOnly)
		}
		if !isUnmounted(t, s.Scratch) {
			t.Error("the jail is still mounted")
		}
	}
}

func TestAMachineWithoutKVMIsRefused(t *testing.T) {
	vmtest.CheckNeedsKVM(t, Driver{})
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
	running := s.Start(t, s.Machine(t, nil, ""))
	vmtest.Must(t, "resume", running.Resume())
	vmtest.Speak(t, running)
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
			running, err := s.Failure(t)
			if err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%v, not %q", err, wanted)
			}
			if running == nil && !isUnmounted(t, s.Scratch) {
				t.Error("a start that failed leaves its jail")
			}
		})
	}
}

func TestAStateThatIsNotLoadedEndsTheProgram(t *testing.T) {
	for _, fault := range []string{"refuse~snapshot.load", "die~snapshot.load", "refuse~drives.disk0"} {
		t.Run(fault, func(t *testing.T) {
			state := newStage(t, "").Saved(t)
			s := newStage(t, fault)
			m := s.Machine(t, state, "saved 1")
			_, layer := vmtest.Mounted(t, "layer", true)
			m.Added = []vm.Disk{{Number: 0, File: layer, ReadOnly: true}}
			if _, err := s.Driver.Start(m); err == nil {
				t.Error("the machine was started")
			}
			if !isUnmounted(t, s.Scratch) {
				t.Error("the jail is still mounted")
			}
		})
	}
}

func TestAProgramThatTheJailerRefusesIsReported(t *testing.T) {
	s := newStageOf(t, func() string { return vmtest.CopySelf(t, "other") })
	if _, err := s.Driver.Start(s.Machine(t, nil, "")); err == nil || !strings.Contains(err.Error(), "exit status 1") {
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
