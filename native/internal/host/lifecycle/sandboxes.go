// Package lifecycle creates, watches, pauses, stops and destroys the sandboxes of one state directory.
package lifecycle

import (
	"log"
	"sync"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/host/snapshots"
	"agentpod/native/internal/host/spare"
	"agentpod/native/internal/host/standby"
	"agentpod/native/internal/host/unmounts"
	"agentpod/native/internal/host/volumes"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/keylock"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
)

// Options is what Sandboxes works with.
type Options struct {
	Home string
	// Stored is the range of ids that sandboxes' files have on the disk. IDs gives out the ranges that they
	// run as.
	Stored    mount.Range
	IDs       *ids.Allocator
	Pool      *pool.Pool
	Snapshots *snapshots.Store
	Volumes   *volumes.Store
	Builder   *rootfs.Builder
	Launcher  *boot.Launcher
	Shells    *shells.Pool
	// GVisorShells are those of gVisor sandboxes.
	GVisorShells *shells.Pool
	// MemoryShells are those of gVisor sandboxes that continue saved processes.
	MemoryShells *shells.Pool
	Machines     *machines.Store
	// KeepsMachines: a virtual machine waits for the next sandbox.
	KeepsMachines bool
	Locks         *keylock.Locks
	// Spare has directories for new sandboxes.
	Spare *spare.Directories
	// Publish sends an event to every client. It must not block.
	Publish func(event any)
	Log     *log.Logger
}

// Sandboxes has the sandboxes of one state directory. Unless a method says otherwise, its caller holds the
// lock of the sandbox that it names.
type Sandboxes struct {
	Options
	*handles
	disk diskCache
	// tasks are the goroutines that watch sandboxes and react to their deadlines.
	tasks    sync.WaitGroup
	unmounts unmounts.Queue
	// waiting has a virtual machine for the next sandbox.
	waiting *standby.Keeper

	mu   sync.Mutex
	live map[string]*live
}

// New returns the sandboxes of a state directory. Call Recover before anything else.
func New(options Options) *Sandboxes {
	return &Sandboxes{Options: options, handles: &handles{home: options.Home, spare: options.Spare}, live: map[string]*live{}, waiting: standby.New(options.KeepsMachines, options.Log)}
}

// shellsOf returns the shells that sandboxes on this runtime run in.
func (s *Sandboxes) shellsOf(runtime boot.Runtime) *shells.Pool {
	if runtime == boot.GVisor {
		return s.GVisorShells
	}
	return s.Shells
}

// lock waits for the sandbox's lock and returns the function that unlocks it.
func (s *Sandboxes) lock(id string) func() { return s.Locks.Lock("sandbox " + id) }

// task runs work in a goroutine that Close waits for.
func (s *Sandboxes) task(work func()) {
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		work()
	}()
}

// DropWaiting ends the virtual machine that waits for the next sandbox.
func (s *Sandboxes) DropWaiting() { s.waiting.Drop() }

// Close stops watching. The sandboxes keep running.
func (s *Sandboxes) Close() {
	s.waiting.Close()
	s.mu.Lock()
	for _, l := range s.live {
		l.pidfd.Close()
	}
	s.mu.Unlock()
	s.tasks.Wait()
}

// Alive returns the number of sandboxes whose first process runs.
func (s *Sandboxes) Alive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// isAlive reports whether the sandbox's first process is watched.
func (s *Sandboxes) isAlive(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id] != nil
}

// existing returns the handle of a sandbox that exists, whether its process runs or not.
func (s *Sandboxes) existing(id string) (*Handle, error) {
	handle, err := s.load(id)
	if err != nil {
		return nil, err
	}
	if !handle.exists() {
		return nil, hostproto.Errorf(hostproto.NotFound, "sandbox.absent", "there is no sandbox %s", id)
	}
	return handle, nil
}

// wrongState is the error for a request that the sandbox's state does not allow.
func (s *Sandboxes) wrongState(handle *Handle, wish string) error {
	state := handle.State
	if (state == stateRunning || state == statePaused) && !s.isAlive(handle.ID) {
		state = "exited"
	}
	return hostproto.Errorf(hostproto.Conflict, "sandbox.state", "sandbox %s cannot be %s: it is %s", handle.ID, wish, state)
}

// Files returns the place of a sandbox's files in the pool, if it exists. It needs no lock.
func (s *Sandboxes) Files(id string) (files pool.Entry, exists bool) {
	handle, err := s.load(id)
	if err != nil || !handle.exists() {
		return pool.Entry{}, false
	}
	return handle.files(), true
}

// UserOfRoot returns the name of a sandbox (in any state) whose root, or a root that it mounts, satisfies the
// predicate, or "". It needs no lock.
func (s *Sandboxes) UserOfRoot(isUsed func(hostproto.Root) bool) string {
	for _, id := range s.IDsOnDisk() {
		handle, err := s.load(id)
		if err != nil || handle == nil {
			continue
		}
		for _, root := range append(hostproto.Roots(handle.Mounts), handle.Root) {
			if isUsed(root) {
				return "sandbox " + id
			}
		}
	}
	return ""
}

// AskHealth asks the podd of a sandbox whether it serves.
func (s *Sandboxes) AskHealth(id string) (string, error) {
	handle, err := s.existing(id)
	if err != nil {
		return "", err
	}
	return s.runOf(handle).AskHealth()
}
