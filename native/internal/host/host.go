// Package host is podhost's daemon. It puts together the parts that own the sandboxes, snapshots and layers
// of one state directory, and dispatches requests to them.
package host

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/lifecycle"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/host/serve"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/host/snapshots"
	"agentpod/native/internal/host/spare"
	"agentpod/native/internal/host/volumes"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/keylock"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/layer"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/vm/drivers"
)

const (
	// walksDir is where the podhosts of this machine record which of its files they hide. A reboot empties
	// it.
	walksDir = "/run/agentpod/private-files"
	// idleLimit is how long podhost stays without a client and without a running sandbox.
	idleLimit = 10 * time.Minute
	// refreshInterval is how often podhost checks whether to search the machine for private files again.
	refreshInterval = 10 * time.Second
)

// Config is what podhost is started with.
type Config struct {
	Home, Podd string
	Rootless   bool
	// NoCgroup is the reason why systemd gave an ordinary user no cgroup. It is empty if it gave one.
	NoCgroup string
	// Shells is how many blank shells to keep ready.
	Shells int
	// Runsc is the path of gVisor's program, which may be missing.
	Runsc string
	// VMM is the program that runs virtual machines, Kernel the directory of their kernel, and Init the first
	// program inside. Each may be missing.
	VMM          *drivers.Installed
	Kernel, Init string
	Version      string
}

// Host owns everything in one state directory.
type Host struct {
	config Config
	home   string
	log    *log.Logger
	// stored is the range of ids that sandboxes' files have on the disk. ids gives out the ranges that they
	// run as.
	stored   mount.Range
	ids      *ids.Allocator
	cgroups  cgroup.Manager
	stage    *mount.Stage
	builder  *rootfs.Builder
	layers   *layer.Store
	pool     *pool.Pool
	network  *boot.Network
	launcher *boot.Launcher
	shells   *shells.Pool
	// gvisorShells are those of gVisor sandboxes.
	gvisorShells *shells.Pool
	// memoryShells are those that continue saved processes.
	memoryShells *shells.Pool
	machines     *machines.Store
	snapshots    *snapshots.Store
	volumes      *volumes.Store
	sandboxes    *lifecycle.Sandboxes
	server       *serve.Server
	locks        keylock.Locks
	// layerUse is held for reading while something is made from layers, and for writing while a layer is
	// removed.
	layerUse sync.RWMutex
	// bases are the base trees that sandboxes used when podhost started.
	bases    map[string]bool
	stopping chan struct{}
	stopOnce sync.Once
}

// New prepares everything but the socket. It must run in podhost's own mount namespace and hold the lock on
// the state directory.
func New(config Config, logger *log.Logger) (*Host, error) {
	h := &Host{config: config, home: config.Home, log: logger, stopping: make(chan struct{})}
	h.server = serve.New(logger, h.stopping)
	if err := makeDirectories(h.home); err != nil {
		return nil, err
	}
	var err error
	if h.stored, err = storedRange(h.home, config.Rootless); err != nil {
		return nil, err
	}
	h.cgroups = h.findCgroups()
	if err := h.makeStage(); err != nil {
		return nil, err
	}
	points := append([]string{lateroot.Slot}, shells.KeptMounts...)
	root, err := h.stage.Blank(h.builder.Podd, points, []string{gvisor.BootIDFile})
	if err != nil {
		return nil, err
	}
	h.network = &boot.Network{IDs: h.ids}
	h.launcher = &boot.Launcher{Home: h.home, Cgroups: h.cgroups, IDs: h.ids, Stage: h.stage, Root: root}
	h.launcher.Runsc = &gvisor.Runsc{Path: config.Runsc, Rootless: config.Rootless}
	h.shells = shells.NewPool(h.launcher, boot.Container, config.Shells, logger)
	h.gvisorShells = shells.NewPool(h.launcher, boot.GVisor, gvisorShells(config.Shells), logger)
	h.memoryShells = shells.NewMemoryPool(h.launcher, config.Shells > 0, logger)
	h.machines = machines.New(machines.Options{Home: h.home, Pool: h.pool, Program: config.VMM, Kernel: config.Kernel, Podd: config.Podd,
		Init: config.Init, Rootless: config.Rootless, Shifts: h.stage.Shifted(), Launcher: h.launcher, Locks: &h.locks, Log: logger})
	h.launcher.RemoveMemory = h.machines.Remove
	h.snapshots = snapshots.New(snapshots.Options{Home: h.home, Pool: h.pool, Layers: h.layers, Locks: &h.locks, Log: logger, RemoveMemory: h.machines.Remove,
		Layout: layer.Layout{Shift: h.stored.Base, IsUpper: true, UserXattr: config.Rootless}})
	h.volumes = volumes.New(volumes.Options{Home: h.home, Stored: h.stored, Pool: h.pool, Locks: &h.locks, Log: logger})
	spares, err := spare.Open(filepath.Join(h.home, "spare"), lifecycle.RecordFile)
	if err != nil {
		return nil, err
	}
	h.sandboxes = lifecycle.New(lifecycle.Options{Home: h.home, Stored: h.stored, IDs: h.ids, Pool: h.pool, Snapshots: h.snapshots, Volumes: h.volumes,
		Builder: h.builder, Launcher: h.launcher, Shells: h.shells, GVisorShells: h.gvisorShells, MemoryShells: h.memoryShells, Machines: h.machines, KeepsMachines: config.Shells > 0, Locks: &h.locks, Spare: spares, Publish: h.server.Publish, Log: logger})
	if err := h.recover(); err != nil {
		return nil, err
	}
	h.shells.Begin(h.sandboxes)
	h.gvisorShells.Begin(h.sandboxes)
	h.memoryShells.Begin(h.sandboxes)
	return h, nil
}

// gvisorShells is how many shells of gVisor to keep ready, once a sandbox has used one. Each takes about
// forty megabytes.
func gvisorShells(containers int) int {
	if containers == 0 {
		return 0
	}
	return 2
}

// makeStage mounts the stage, copies podd to it and sets up what depends on it.
func (h *Host) makeStage() error {
	shared := h.sharedIDsReason()
	h.ids = ids.New(ids.Options{Home: h.home, Stored: h.stored, Shared: shared, IsServed: IsServed, Log: h.log})
	keep := []string{h.home, h.config.Podd}
	view := rootfs.FindView(os.Getenv)
	var err error
	if h.stage, err = mount.NewStage(shared == "", append(keep, view.Dirs...)); err != nil {
		return err
	}
	podd, err := h.stagePodd()
	if err != nil {
		return fmt.Errorf("podd: %w", err)
	}
	h.builder = &rootfs.Builder{
		Home: h.home, Podd: podd, Stage: h.stage, Stored: h.stored, Rootless: h.config.Rootless, View: view, Walks: walksDir,
	}
	h.pool = pool.New(pool.Options{Home: h.home, Point: h.stage.Pool(), Rootless: h.config.Rootless, Log: h.log})
	h.layers = &layer.Store{Home: h.home, Shift: h.builder.Shift(), UserXattr: h.builder.Rootless, Forget: h.stage.Forget, CheckSpace: h.pool.CheckSpace}
	return nil
}

// sharedIDsReason returns why sandboxes here cannot run as ids of their own, or "" if they can.
func (h *Host) sharedIDsReason() string {
	if h.config.Rootless {
		return "an ordinary user cannot mount files with shifted ids, so all sandboxes run as the same ids, those of their files"
	}
	if err := mount.ProbeShift(filepath.Join(h.home, "tmp"), h.stored); err != nil {
		h.log.Printf("idmapped mounts do not work here: %v", err)
		return fmt.Sprintf("idmapped mounts do not work here: %v", err)
	}
	return ""
}

// stagePodd copies podd to the stage. A sandbox then does not see its program change when the product is
// upgraded, cannot write to the product's file, and does not see the path of the state directory in its table
// of mounts.
func (h *Host) stagePodd() (string, error) {
	data, err := os.ReadFile(h.config.Podd)
	if err != nil {
		return "", err
	}
	return h.stage.File("podd", data, 0o555)
}

func (h *Host) findCgroups() cgroup.Manager {
	if !h.config.Rootless {
		return cgroup.Detect(scopeOf(h.home))
	}
	return cgroup.DetectDelegated(scopeOf(h.home), filepath.Join(h.home, "run", "cgroup"), h.config.NoCgroup)
}

// recover brings what an earlier podhost left behind into a known state, and removes groups, files and
// snapshots that belong to nothing.
func (h *Host) recover() error {
	if err := os.Chmod(h.home, 0o700); err != nil {
		return err
	}
	if h.mayHaveEntries() {
		// The pool logs its own failure, and reports it to requests that need the pool.
		h.pool.Open()
	}
	found, err := h.sandboxes.Recover()
	if err != nil {
		return err
	}
	h.ids.Recover()
	if err := h.layers.Sweep(); err != nil {
		return err
	}
	if h.mayHaveEntries() {
		h.snapshots.Recover()
		h.volumes.Recover()
		h.machines.Recover(func(name string) bool { return found.Groups[name] || found.Saved[name] || h.snapshots.Has(name) })
	}
	h.sweepEarlierVersion()
	h.sandboxes.SweepSockets(found.Groups)
	h.bases = found.Bases
	return nil
}

// sweepEarlierVersion removes directories in which earlier versions kept the state of an OCI runtime.
func (h *Host) sweepEarlierVersion() {
	for parent, name := range map[string]string{filepath.Join(h.home, "run"): "runtime", h.home: "shells"} {
		if err := safefs.RemoveTree(parent, name); err != nil {
			h.log.Printf("%s: %v", name, err)
		}
	}
}

// mayHaveEntries reports whether the pool may have entries. If not, the pool is opened while podhost serves
// already, because making one takes a while.
func (h *Host) mayHaveEntries() bool {
	_, err := os.Lstat(filepath.Join(h.home, "pool.img"))
	_, other := os.Lstat(filepath.Join(h.home, "pool"))
	return err == nil || other == nil || len(h.snapshots.IDs()) > 0 || len(h.volumes.IDs()) > 0
}

// Stop makes Run return. Sandboxes keep running, and the next podhost finds them.
func (h *Host) Stop() { h.stopOnce.Do(func() { close(h.stopping) }) }

// Run serves until Stop, then lets running requests finish. It calls ready when the socket listens.
func (h *Host) Run(ready func()) error {
	listener, err := serve.Listen(filepath.Join(h.home, "run/podhost.sock"))
	if err != nil {
		return err
	}
	// The socket stays open to the end: a program that waits for podhost to stop waits for the socket.
	defer listener.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	for _, work := range []func(){
		func() { h.watchDeadlines(ctx) },
		func() { h.pool.Maintain(ctx, h.isBusy) },
		// The first client that asks finds the answer.
		func() { h.launcher.Runsc.Release() },
		func() { h.machines.Check() },
		h.keepHostRootFresh,
	} {
		background.Add(1)
		go func(work func()) {
			defer background.Done()
			work()
		}(work)
	}
	ready()
	h.server.Serve(listener, h)
	cancel()
	background.Wait()
	h.close()
	return nil
}

// watchDeadlines looks at deadlines and logs each half second, and stops podhost when there is nothing to do.
// It runs until ctx ends.
func (h *Host) watchDeadlines(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	idleSince := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		h.sandboxes.ExpireOverdue(time.Now())
		h.sandboxes.TrimLogs()
		if h.sandboxes.Alive() > 0 || h.server.Connections() > 0 {
			idleSince = time.Now()
		} else if time.Since(idleSince) > idleLimit {
			h.log.Printf("nothing to do for %v: stopping", idleLimit)
			h.Stop()
		}
	}
}

// isBusy reports whether something may be writing to the pool.
func (h *Host) isBusy() bool { return h.sandboxes.Alive() > 0 || h.snapshots.IsWriting() }

// keepHostRootFresh prepares the `host` root while podhost serves already, and keeps it up to date until
// podhost stops. A sandbox that comes before the root is ready waits for it.
func (h *Host) keepHostRootFresh() {
	err := h.builder.Prepare(h.bases)
	if err == nil {
		err = h.refreshHostRoot()
	}
	if err != nil {
		h.log.Printf("prepare the host root: %v", err)
	}
	for h.sleep(refreshInterval) {
		if err := h.refreshHostRoot(); err != nil {
			h.log.Printf("look for private files: %v", err)
		}
	}
}

// refreshHostRoot searches the machine for private files again if the last search is too old.
func (h *Host) refreshHostRoot() error {
	if !h.builder.IsStale() {
		return nil
	}
	return h.builder.Refresh(h.stopping)
}

// sleep returns false if podhost stops meanwhile.
func (h *Host) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.stopping:
		return false
	}
}

// close frees everything without touching the sandboxes.
func (h *Host) close() {
	h.sandboxes.Close()
	h.shells.Close()
	h.gvisorShells.Close()
	h.memoryShells.Close()
	h.ids.Close()
	h.pool.Close()
	h.cgroups.Close()
}
