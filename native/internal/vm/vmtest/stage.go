package vmtest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/mount"
	"agentpod/native/internal/vm"
)

// MemoryMiB is the memory of machines in tests.
const MemoryMiB = 1

// Main runs the tests. A test program also plays other ones: play returns false if this is none of them, and
// returns at all only if what it plays has ended.
func Main(m *testing.M, play func() (bool, error)) {
	isPlaying, err := play()
	if !isPlaying && len(os.Args) == 3 && os.Args[1] == mount.UserNamespaceHelper {
		isPlaying, err = true, mount.RunUserNamespaceHelper(os.Args[2])
	}
	if !isPlaying {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, "violation", err)
	os.Exit(1)
}

// FaultyName is the name of a fake that fails in one way (FaultIn); in none if fault is empty.
func FaultyName(name, fault string) string {
	if fault == "" {
		return name
	}
	return name + "~" + fault
}

// A Stage is a driver whose programs are fakes.
type Stage struct {
	Driver vm.Driver
	// Scratch is the directory of the driver. Log has what the fakes say.
	Scratch string
	Log     *os.File
	// Memory is the path of the memory of the machine that was described last.
	Memory string
}

// NewStage returns a stage with the driver that is made for a directory.
func NewStage(t *testing.T, driver func(scratch string) vm.Driver) *Stage {
	t.Helper()
	NeedsRoot(t)
	scratch := t.TempDir()
	return &Stage{Driver: driver(scratch), Scratch: scratch, Log: File(t, "")}
}

// Machine describes one that boots, or continues with this state. Its memory begins with these bytes.
func (s *Stage) Machine(t *testing.T, state *os.File, memory string) vm.Machine {
	t.Helper()
	m := vm.Machine{Accel: vm.Hardware, MemoryMiB: MemoryMiB, CPUs: 3, UID: UID, Log: s.Log, State: state}
	if state == nil {
		m.Kernel, m.Initrd = File(t, "kernel"), File(t, "initrd")
		for _, file := range []*os.File{m.Kernel, m.Initrd} {
			Must(t, "chmod", file.Chmod(0o644))
		}
	}
	s.Memory, m.Memory = Mounted(t, memory+strings.Repeat("\x00", MemoryMiB<<20-len(memory)), false)
	return m
}

// Disks are a layer and a disk that can be written to, whose number is upper.
func Disks(t *testing.T, upper int) []vm.Disk {
	t.Helper()
	_, layer := Mounted(t, "layer", true)
	_, writable := Mounted(t, "upper", false)
	return []vm.Disk{{Number: 0, File: layer, ReadOnly: true}, {Number: upper, File: writable}}
}

// Start starts a machine, which ends with the test.
func (s *Stage) Start(t *testing.T, m vm.Machine) vm.Running {
	t.Helper()
	running, err := s.Driver.Start(m)
	if err != nil {
		text, _ := os.ReadFile(s.Log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(running.End)
	return running
}

// Saved boots a machine, saves it and ends it.
func (s *Stage) Saved(t *testing.T) *os.File {
	t.Helper()
	running := s.Start(t, s.Machine(t, nil, ""))
	Must(t, "resume", running.Resume())
	Must(t, "pause", running.Pause())
	state := File(t, "")
	Must(t, "save", running.Save(state))
	running.End()
	return state
}

// CheckRequests compares the requests so far, and fails if one of them was wrong.
func (s *Stage) CheckRequests(t *testing.T, wanted ...string) {
	t.Helper()
	if found := Lines(t, s.Log, "request"); strings.Join(found, "\n") != strings.Join(wanted, "\n") {
		t.Errorf("the requests were %q, not %q", found, wanted)
	}
	for _, violation := range Lines(t, s.Log, "violation") {
		t.Error(violation)
	}
}

// Failure does everything once with a machine that boots, and returns it, if it was started, and the error.
func (s *Stage) Failure(t *testing.T) (vm.Running, error) {
	t.Helper()
	running, err := s.Driver.Start(s.Machine(t, nil, ""))
	if err != nil {
		return nil, err
	}
	t.Cleanup(running.End)
	if err := running.Resume(); err != nil {
		return running, err
	}
	if _, err := running.Link(time.Now().Add(200 * time.Millisecond)); err != nil {
		return running, err
	}
	if err := running.Pause(); err != nil {
		return running, err
	}
	return running, running.Save(File(t, ""))
}

// Speak connects to a machine, and fails if it does not send back what it gets.
func Speak(t *testing.T, running vm.Running) {
	t.Helper()
	conn, err := running.Link(time.Now().Add(5 * time.Second))
	Must(t, "link", err)
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "hello" {
		t.Fatalf("the machine answers %q, %v", answer, err)
	}
}

// CheckOutput fails if a machine does not log what fakes log when they boot.
func CheckOutput(t *testing.T, running vm.Running) {
	t.Helper()
	output := make([]byte, len(Booted))
	running.Output().SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(running.Output(), output); err != nil || string(output) != Booted {
		t.Errorf("the output is %q, %v", output, err)
	}
}

// CheckEnded ends a machine, and fails if something of it is left.
func CheckEnded(t *testing.T, running vm.Running) {
	t.Helper()
	running.End()
	if running.Err() == nil {
		t.Error("a machine that has ended has no reason")
	}
	if _, err := running.Link(time.Now().Add(5 * time.Second)); err == nil {
		t.Error("a machine that has ended has a link")
	}
}

// CheckSaved fails if a state is empty.
func CheckSaved(t *testing.T, state *os.File) {
	t.Helper()
	if info, err := state.Stat(); err != nil || info.Size() == 0 {
		t.Errorf("the state is empty, %v", err)
	}
}

// CheckNeedsKVM fails if a driver emulates a processor.
func CheckNeedsKVM(t *testing.T, driver vm.Driver) {
	t.Helper()
	if _, err := driver.Start(vm.Machine{Accel: vm.Emulated}); err == nil || !strings.Contains(err.Error(), "AGENTPOD_VMM=qemu") {
		t.Errorf("%v", err)
	}
}

// Must fails the test at once.
func Must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
