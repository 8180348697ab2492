package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/layer"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"

	"golang.org/x/sys/unix"
)

// walksDir is where the podhosts of this machine record which of its files they hide. A reboot empties it.
const walksDir = "/run/agentpod/private-files"

// Host owns the sandboxes of one state directory.
type Host struct {
	config Config
	home   string
	log    *log.Logger
	// stored is what the ids of sandboxes' files are on the disk, and ids gives out those that they run as.
	stored  mount.Range
	ids     *ids.Allocator
	cgroups cgroup.Manager
	runtime Runtime
	program sealedProgram
	stage   *mount.Stage
	builder *rootfs.Builder
	// bases are the base trees that living sandboxes stand on, as found at start.
	bases  map[string]bool
	layers *layer.Store
	pool   *pool.Pool
	// writing counts the requests that write many files themselves.
	writing int32
	events  *hub
	locks   keyedLocks
	lanes   lanes
	// layerUse is held for reading by starts and for writing while a layer goes.
	layerUse sync.RWMutex
	over     overUse
	spares   *namespacePool
	shells   *shells
	disk     diskCache
	stopping chan struct{}
	stopOnce sync.Once

	// tasks are the goroutines that New and adopt start.
	tasks sync.WaitGroup

	mu   sync.Mutex
	live map[string]*live
}

// New prepares everything but the socket. It must run in podhost's own mount namespace and hold the lock on the home.
func New(config Config, logger *log.Logger) (*Host, error) {
	h := &Host{config: config, home: config.Home, log: logger, live: map[string]*live{}, events: newHub(), lanes: newLanes(), stopping: make(chan struct{})}
	for _, dir := range []string{"run/s", "run/runtime", "sandboxes", "shells", "snapshots", "layers", "base", "tmp"} {
		if err := os.MkdirAll(filepath.Join(h.home, dir), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if h.stored, err = storedRange(h.home, config.Rootless); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("subreaper: %w", err)
	}
	h.cgroups = h.findCgroups()
	h.runtime = findRuntime(config.Runtime)
	if err := h.setStage(); err != nil {
		return nil, err
	}
	h.spares = newNamespacePool(h.ids)
	if err := h.recover(); err != nil {
		return nil, err
	}
	h.shells = newShells(h, config.Shells)
	return h, nil
}

// setStage mounts the stage and puts podd on it.
func (h *Host) setStage() error {
	shared := h.whyShared()
	h.ids = ids.New(ids.Options{Home: h.home, Stored: h.stored, Shared: shared, IsServed: IsServed, Log: h.log})
	keep := []string{h.home, h.config.Podd, h.runtime.Path}
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
	h.layers = &layer.Store{Home: h.home, Shift: h.builder.Shift(), Forget: h.stage.Forget, Room: h.pool.Room}
	return nil
}

// whyShared says why sandboxes here cannot run as ids of their own; "" where they can.
func (h *Host) whyShared() string {
	if h.config.Rootless {
		return "an ordinary user cannot mount files with shifted ids, so all sandboxes run as the one range that their files belong to"
	}
	if err := mount.ProbeShift(filepath.Join(h.home, "tmp"), h.stored); err != nil {
		h.log.Printf("idmapped mounts do not work here: %v", err)
		return fmt.Sprintf("idmapped mounts do not work here: %v", err)
	}
	return ""
}

// stagePodd puts a copy of podd on the stage: a sandbox must not see its program change when the product is upgraded under
// it, nor write to the product's file, nor read the state directory's path in its table of mounts.
func (h *Host) stagePodd() (string, error) {
	data, err := os.ReadFile(h.config.Podd)
	if err != nil {
		return "", err
	}
	return h.stage.File("podd", data, 0o555)
}

func (h *Host) findCgroups() cgroup.Manager {
	if !h.config.Rootless {
		return cgroup.Detect(h.scope())
	}
	return cgroup.DetectDelegated(h.scope(), filepath.Join(h.home, "run", "cgroup"), h.config.NoCgroup)
}

// scope tells the groups of several state directories on one host apart.
func (h *Host) scope() string {
	sum := sha256.Sum256([]byte(h.home))
	return hex.EncodeToString(sum[:4])
}

// Stop makes Run return. Sandboxes stay; the next podhost finds them.
func (h *Host) Stop() { h.stopOnce.Do(func() { close(h.stopping) }) }

// idleLimit is how long podhost stays with nobody connected and no sandbox alive.
const idleLimit = 10 * time.Minute

// tend runs until ctx ends: deadlines each half second, and leaving when there is nothing to do.
func (h *Host) tend(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	idleSince := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		h.tick(time.Now())
		h.trimLogs()
		h.mu.Lock()
		alive := len(h.live)
		h.mu.Unlock()
		if alive > 0 || h.events.count() > 0 {
			idleSince = time.Now()
		} else if time.Since(idleSince) > idleLimit {
			h.log.Printf("nothing to do for %v: leaving", idleLimit)
			h.Stop()
		}
	}
}

// isBusy reports whether anybody may be writing to the pool.
func (h *Host) isBusy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live) > 0 || atomic.LoadInt32(&h.writing) > 0
}

// close lets go of everything without touching the sandboxes.
func (h *Host) close() {
	h.mu.Lock()
	for _, l := range h.live {
		l.pidfd.Close()
	}
	h.mu.Unlock()
	h.tasks.Wait()
	h.shells.close()
	h.spares.close()
	h.ids.Close()
	h.pool.Close()
	h.cgroups.Close()
}
