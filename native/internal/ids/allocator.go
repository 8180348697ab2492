// Package ids gives every sandbox its own user and group ids. The kernel counts many resources by user:
// watches, pages of pipes, queued signals, keys. Sandboxes with different ids do not share these limits.
package ids

import (
	"fmt"
	"log"
	"math/rand"
	"os"
	"sync"

	"agentpod/native/internal/mount"
)

// Count is how many ids a sandbox has. Ranges begin at multiples of it.
const Count = 65536

// Ranges are between the ids that systemd uses for its containers and those of stored files. Careless
// programs read ids from 2^31 on as negative numbers.
const (
	lowest = 0x70000000
	slots  = (0x7F000000 - lowest) / Count
)

// mostFree is how many ranges are kept ready for the next sandboxes. Each takes a claim and a descriptor.
const mostFree = 128

// ownerID is the owner of a sandbox's user namespace, counted from the beginning of the range. Nothing in a
// sandbox runs as this id.
const ownerID = 65533

// A Range is the ids that one sandbox runs as.
type Range struct {
	mount.Range
	// Owner is the user to whom the kernel charges what the sandbox's user namespace uses of limits per user.
	Owner int
	// Stored maps the stored range to this one in mounts; nil if they are the same.
	Stored *os.File
	// Shared is the reason why other sandboxes run as the same ids, or "".
	Shared string
}

// Options of an Allocator.
type Options struct {
	// Home is the state directory; the caller holds its lock.
	Home string
	// Stored is the range of ids that sandboxes' files have on the disk. Sandboxes without their own range
	// run as it.
	Stored mount.Range
	// Shared is the reason why no sandbox can have its own range, or "".
	Shared string
	// IsServed reports whether a podhost serves a state directory.
	IsServed func(home string) bool
	Log      *log.Logger

	// registry and occupied are for tests.
	registry string
	occupied []mount.Range
}

// An Allocator owns the ranges of one state directory.
type Allocator struct {
	o        Options
	registry *registry
	occupied []mount.Range

	mu sync.Mutex
	// free are claimed and unused ranges. The one that has been free longest is first.
	free []*Range
	// taken are the ranges of prepared namespaces, shells and sandboxes, by first id.
	taken map[int]*Range
	turn  int
}

// New returns an allocator. The claims of earlier podhosts stay until Recover.
func New(o Options) *Allocator {
	a := &Allocator{o: o, taken: map[int]*Range{}, turn: rand.Int(), occupied: o.occupied}
	if o.Shared != "" {
		return a
	}
	if a.occupied == nil {
		a.occupied = Occupied()
	}
	a.occupied = append(a.occupied, o.Stored)
	if o.registry == "" {
		o.registry = registryDir
	}
	var err error
	if a.registry, err = openRegistry(o.registry, o.Home); err != nil {
		a.o.Shared = fmt.Sprintf("ranges cannot be claimed: %v", err)
	}
	return a
}

// Shared returns the reason why sandboxes have no ranges of their own, or "".
func (a *Allocator) Shared() string { return a.o.Shared }

// Take returns a range that nothing runs as. If there is none, it returns the range that sandboxes share.
func (a *Allocator) Take() (*Range, error) {
	r := a.take()
	if r.Shared != "" || r.Stored != nil {
		return r, nil
	}
	// This takes as long as starting a process, so it runs without the lock.
	stored, err := mount.NewIdmap(a.o.Stored, r.Range)
	if err != nil {
		a.Release(r.Base)
		return nil, err
	}
	r.Stored = stored
	return r, nil
}

func (a *Allocator) take() *Range {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.o.Shared != "" {
		return a.shared(a.o.Shared)
	}
	var r *Range
	if len(a.free) > 0 {
		r, a.free = a.free[0], a.free[1:]
	} else if base, err := a.claim(); err != nil {
		return a.shared(err.Error())
	} else {
		r = &Range{Range: mount.Range{Base: base, Count: Count}, Owner: base + ownerID}
	}
	a.taken[r.Base] = r
	return r
}

// Owners of sandboxes that share a range are ids in the middle of it, one after the other from a random
// start. None of them is a user of the host, and two sandboxes that run at the same time do not share one.
const (
	firstOwner = 10000
	owners     = 50000
)

func (a *Allocator) shared(why string) *Range {
	a.turn++
	return &Range{Range: a.o.Stored, Owner: a.o.Stored.Base + firstOwner + a.turn%owners, Shared: why}
}

// claim looks for an unclaimed range, twice if there seems to be none.
func (a *Allocator) claim() (int, error) {
	for try := 0; try < 2; try++ {
		start := rand.Intn(slots)
		for i := 0; i < slots; i++ {
			base := lowest + (start+i)%slots*Count
			if Overlaps(a.occupied, base) {
				continue
			}
			if claimed, err := a.registry.claim(base); claimed || err != nil {
				return base, err
			}
		}
		a.recover()
	}
	return 0, fmt.Errorf("all %d ranges of ids are in use", slots)
}

// Release takes a range back from a sandbox that has no processes any more.
func (a *Allocator) Release(base int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.taken[base]
	if r == nil {
		return
	}
	delete(a.taken, base)
	if r.Stored != nil && len(a.free) < mostFree {
		a.free = append(a.free, r)
		return
	}
	a.let(r)
}

func (a *Allocator) let(r *Range) {
	if r.Stored != nil {
		r.Stored.Close()
	}
	a.drop(r.Base)
}

func (a *Allocator) drop(base int) {
	if err := a.registry.drop(base); err != nil {
		a.o.Log.Printf("ids from %d on stay claimed: %v", base, err)
	}
}

// Keep records that a sandbox of an earlier podhost ran as a range and may still run. After a reboot the
// range may belong to another sandbox, and this one does not run.
func (a *Allocator) Keep(base int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.registry == nil || base < lowest || base == a.o.Stored.Base {
		return
	}
	if claimed, err := a.registry.claim(base); err != nil || !claimed && !a.registry.isMine(base) {
		return
	}
	a.taken[base] = &Range{Range: mount.Range{Base: base, Count: Count}}
}

// Recover gives up claims of earlier podhosts that are not used: those of this state directory, and those of
// others that no podhost serves.
func (a *Allocator) Recover() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.registry != nil {
		a.recover()
	}
}

func (a *Allocator) recover() {
	release, err := a.registry.lock()
	if err != nil {
		a.o.Log.Printf("ids: %v", err)
		return
	}
	defer release()
	mine := map[int]bool{}
	for _, r := range a.free {
		mine[r.Base] = true
	}
	for base := range a.taken {
		mine[base] = true
	}
	served := map[string]bool{a.o.Home: false}
	var running map[int]bool
	for base, home := range a.registry.claims() {
		if _, known := served[home]; !known {
			served[home] = a.o.IsServed(home)
		}
		if mine[base] || served[home] || home != a.o.Home && a.registry.isNew(base) {
			continue
		}
		if running == nil {
			running = runningRanges()
		}
		if !running[base] {
			a.drop(base)
		}
	}
}

// Close gives up every unused claim. Those of sandboxes stay.
func (a *Allocator) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.registry != nil {
		// When podhost started, a process that was about to end may have kept a claim.
		a.recover()
	}
	for _, r := range a.free {
		a.let(r)
	}
	a.free = nil
	for _, r := range a.taken {
		if r.Stored != nil {
			r.Stored.Close()
		}
	}
}
