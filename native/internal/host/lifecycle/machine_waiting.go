package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/standby"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/random"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/vm/order"
	"agentpod/native/internal/vm/supervise"
)

// rehearseWithin bounds the program that a machine runs before it waits.
const rehearseWithin = 20 * time.Second

// A waitingMachine has the root of a sandbox, and no sandbox yet. Its files are in an entry of the pool that
// has its name. An entry without a sandbox of its name is removed when podhost starts.
type waitingMachine struct {
	sandboxes *Sandboxes
	// handle has its files and its run. It is not stored.
	handle *Handle
}

func (w *waitingMachine) IsAlive() bool { return w.handle.run.IsAlive() }

// Discard ends it. Its files may be those of a sandbox that it failed to become.
func (w *waitingMachine) Discard() {
	err := w.sandboxes.Launcher.End(w.handle.run, stopwatch.New())
	if err == nil {
		err = w.sandboxes.Pool.Remove(w.handle.files())
	}
	if err != nil {
		w.sandboxes.Log.Printf("machine %s: %v", w.handle.Shell, err)
	}
}

// environmentName is the name of the environment of a sandbox that starts from a template.
func (s *Sandboxes) environmentName(args hostproto.CreateSandbox, from machineSource) (string, error) {
	start := &machineStart{sandboxes: s, args: args, from: from}
	defer start.close()
	begin, err := start.plan(rootfs.NewFiles)
	if err != nil {
		return "", err
	}
	return start.environmentName(begin)
}

// makeWaiting makes a machine for a sandbox like the one that was just created. It returns nil if there is
// nothing to make it from.
func (s *Sandboxes) makeWaiting(environment string, args hostproto.CreateSandbox, from machineSource) (standby.Machine, error) {
	found, err := s.Machines.Environment(environment, &from.Template)
	if err != nil || found == nil || s.Pool.CheckSpace() != nil {
		return nil, err
	}
	clock := stopwatch.New()
	waiting, err := s.newWaiting(&args)
	if err != nil || waiting == nil {
		return nil, err
	}
	if err = s.newMachineFiles(waiting.handle); err == nil {
		err = s.bootMachine(waiting.handle, args, from, rootfs.NewFiles, clock)
	}
	if err != nil {
		s.removeFiles(waiting.handle)
		return nil, err
	}
	if err := waiting.handle.run.Rehearse(rehearseWithin); err != nil {
		s.Log.Printf("machine %s: rehearse: %v", waiting.handle.Shell, err)
	}
	clock.Lap("rehearse")
	return s.letWait(waiting, clock)
}

// savedKind is the kind of the machines that continue a snapshot with these arguments.
func savedKind(args hostproto.CreateSandbox) (string, error) {
	// What differs from sandbox to sandbox comes with its identity.
	args.ID, args.Owner, args.Hostname, args.DeadlineMs, args.WhenOver = "", "", "", 0, ""
	text, err := json.Marshal(args)
	return "snapshot " + args.Snapshot + " " + string(text), err
}

// ForgetSnapshot ends the machine that waits to continue a snapshot, which is removed.
func (s *Sandboxes) ForgetSnapshot(id string) { s.waiting.Forget("snapshot " + id + " ") }

// makeSavedWaiting makes a machine for a sandbox that continues a snapshot. Its programs stay frozen: they
// continue under the identity of that sandbox.
func (s *Sandboxes) makeSavedWaiting(args hostproto.CreateSandbox) (standby.Machine, error) {
	if s.Pool.CheckSpace() != nil {
		return nil, nil
	}
	clock := stopwatch.New()
	from, err := s.savedMachine(args)
	if err != nil {
		return nil, err
	}
	waiting, err := s.newWaiting(&args)
	if err != nil || waiting == nil {
		return nil, err
	}
	from.waits = true
	if err = s.copyMachineFiles(waiting.handle, args); err == nil {
		err = s.bootMachine(waiting.handle, args, from, rootfs.CopiedFiles, clock)
	}
	if err != nil {
		s.removeFiles(waiting.handle)
		return nil, err
	}
	return s.letWait(waiting, clock)
}

// newWaiting returns a machine that has not started, and gives the arguments its name. It returns nil if the
// pool cannot rename its files later.
func (s *Sandboxes) newWaiting(args *hostproto.CreateSandbox) (*waitingMachine, error) {
	name := random.Hex(8)
	files, err := s.Pool.Entry(pool.Sandboxes, name)
	if err != nil || !files.IsVolume {
		return nil, err
	}
	args.ID, args.Hostname = name, boot.Hostname
	return &waitingMachine{s, &Handle{ID: name, Volume: files.IsVolume, Runtime: boot.Machine, Docker: args.Docker}}, nil
}

// letWait lets a machine stand still until it becomes a sandbox.
func (s *Sandboxes) letWait(waiting *waitingMachine, clock *stopwatch.Stopwatch) (standby.Machine, error) {
	if err := supervise.Wait(waiting.handle.run.Control); err != nil {
		waiting.Discard()
		return nil, err
	}
	s.Log.Printf("machine %s waits: %s", waiting.handle.Shell, clock)
	return waiting, nil
}

func (s *Sandboxes) removeFiles(handle *Handle) {
	if err := s.Pool.Remove(handle.files()); err != nil {
		s.Log.Printf("%s: %v", handle.ID, err)
	}
}

// newMachineFiles makes the entry that the disk of a new sandbox is in.
func (s *Sandboxes) newMachineFiles(handle *Handle) error {
	if err := s.Pool.Create(handle.files(), 0); err != nil {
		return err
	}
	return os.Mkdir(filepath.Join(s.Pool.Path(handle.files()), "upper"), 0o700)
}

// becomeSandbox makes a machine that waited the sandbox. If it fails, the machine has ended and the sandbox
// has no files.
func (s *Sandboxes) becomeSandbox(waiting *waitingMachine, handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	err := s.Pool.Rename(waiting.handle.files(), handle.files())
	if err == nil {
		waiting.handle.ID, waiting.handle.Volume = handle.ID, handle.Volume
		err = s.identifyMachine(waiting.handle, handle, args)
	}
	if err != nil {
		waiting.Discard()
		return err
	}
	clock.Lap("waiting machine")
	handle.FromBytes = waiting.handle.FromBytes
	handle.Shell, handle.Machine = waiting.handle.Shell, waiting.handle.Machine
	handle.setRun(waiting.handle.run)
	return nil
}

func (s *Sandboxes) identifyMachine(waiting, handle *Handle, args hostproto.CreateSandbox) error {
	run := waiting.run
	if err := s.limitMachine(run, handle, args.Resources, waiting.Machine.Shape); err != nil {
		return err
	}
	handle.setInnerLimits(waiting.Machine.Levels)
	run.BootID = random.UUID()
	return supervise.Become(run.Control, newIdentity(run.BootID, args.Hostname))
}

// newIdentity is that of a machine that is no other's continuation.
func newIdentity(bootID, hostname string) order.Identity {
	return order.Identity{Seed: []byte(random.Hex(32)), BootID: bootID, Hostname: hostname}
}

// fromWaiting tries to make a machine that waits the sandbox.
func (s *Sandboxes) fromWaiting(kind string, handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) bool {
	waiting, isThere := s.waiting.Take(kind).(*waitingMachine)
	if !isThere {
		return false
	}
	if err := s.becomeSandbox(waiting, handle, args, clock); err != nil {
		s.Log.Printf("%s: machine %s: %v", handle.ID, waiting.handle.Shell, err)
		return false
	}
	return true
}
