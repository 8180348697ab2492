// Package standby keeps a virtual machine ready for the next sandbox. A machine that continues from saved
// memory has all of its code to translate again where the processor is emulated. One that has waited and has
// run a program before starts a sandbox in a fraction of that time.
package standby

import (
	"log"
	"strings"
	"sync"
	"time"

	"agentpod/native/internal/meminfo"
)

const (
	// quiet is how long no machine has started before the next one is made ready. Making one takes a processor
	// for about a second, which the first programs of a new sandbox need.
	quiet = 500 * time.Millisecond
	// keptFor is how long a machine waits. It takes about a hundred megabytes.
	keptFor = 10 * time.Minute
	// minMemory is how much memory must be available, in KiB, for a machine to wait.
	minMemory = 2 << 20
	// checkInterval is how often to look at both.
	checkInterval = 15 * time.Second
)

// A Machine waits for a sandbox.
type Machine interface {
	IsAlive() bool
	// Discard ends it and removes everything of it.
	Discard()
}

// A Maker makes a machine of one kind; nil if it cannot have one.
type Maker func() (Machine, error)

// A Wish is for a machine like the one that has just started.
type Wish struct {
	Kind string
	Make Maker
	// IsThere reports whether there still is something to make it from; nil for always. A copy of a sandbox is
	// made from a snapshot that is removed right afterwards.
	IsThere func() bool
}

// Keeper keeps one machine of the kind that was needed last. It makes none before the first one is needed.
type Keeper struct {
	log   *log.Logger
	quiet time.Duration

	// making is held while a machine is made.
	making sync.Mutex
	mu     sync.Mutex
	// kind is the one that is kept, and needed is when one was needed last. make is nil if none is wanted.
	kind   string
	needed time.Time
	make   Maker
	// next replaces kind and make after a quiet time, if it can still be made then.
	next     *Wish
	ready    Machine
	readyFor string
	// starting counts the machines of sandboxes that start now. started is when the last one had started.
	starting int
	started  time.Time
	isClosed bool

	want, done chan struct{}
	wait       sync.WaitGroup
}

// New returns a Keeper that has begun. If keeps is false, it never has a machine.
func New(keeps bool, logger *log.Logger) *Keeper { return begin(keeps, quiet, logger) }

func begin(keeps bool, quiet time.Duration, logger *log.Logger) *Keeper {
	k := &Keeper{log: logger, quiet: quiet, want: make(chan struct{}, 1), done: make(chan struct{}), isClosed: !keeps}
	if keeps {
		k.wait.Add(1)
		go k.run()
	}
	return k
}

// Take returns a machine of a kind that was alive a moment ago, or nil.
func (k *Keeper) Take(kind string) Machine {
	k.mu.Lock()
	taken := k.ready
	if taken == nil || k.readyFor != kind {
		k.mu.Unlock()
		return nil
	}
	k.ready = nil
	k.mu.Unlock()
	if !taken.IsAlive() {
		taken.Discard()
		return nil
	}
	return taken
}

// Starting says that the machine of a sandbox starts, until the returned function is called. If the wish that
// is passed to it is not nil, the next sandbox is expected to need such a machine.
func (k *Keeper) Starting() (started func(next *Wish)) {
	k.mu.Lock()
	k.starting++
	k.mu.Unlock()
	return func(next *Wish) {
		k.mu.Lock()
		k.starting--
		k.started = time.Now()
		if next != nil {
			k.next = next
		}
		k.mu.Unlock()
		select {
		case k.want <- struct{}{}:
		default:
		}
	}
}

func (k *Keeper) run() {
	defer k.wait.Done()
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-k.done:
			return
		case <-k.want:
		case <-tick.C:
		}
		drop(k.useless())
		for pause := k.untilNext(); pause >= 0; pause = k.untilNext() {
			if pause == 0 {
				k.add()
				continue
			}
			select {
			case <-k.done:
				return
			case <-time.After(pause):
			}
		}
	}
}

// useless takes the machine that no new sandbox is expected to need; nil if there is none.
func (k *Keeper) useless() Machine {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.needed) > keptFor || meminfo.AvailableKiB() < minMemory {
		k.make = nil
	}
	if k.ready == nil || k.make != nil && k.readyFor == k.kind && k.ready.IsAlive() {
		return nil
	}
	found := k.ready
	k.ready = nil
	return found
}

// untilNext is how long to wait before a machine is made; negative if none is wanted.
func (k *Keeper) untilNext() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isClosed || k.next == nil && (k.make == nil || k.ready != nil) {
		return -1
	}
	if k.starting > 0 {
		return k.quiet
	}
	if left := k.quiet - time.Since(k.started); left > 0 {
		return left
	}
	return 0
}

// adopt makes the next kind the one that is kept.
func (k *Keeper) adopt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if next := k.next; next != nil && (next.IsThere == nil || next.IsThere()) {
		k.kind, k.make, k.needed = next.Kind, next.Make, k.started
	}
	k.next = nil
}

// add makes a machine, unless the one that waits is of the kind that is wanted. After a failure none is made
// until the next sandbox starts.
func (k *Keeper) add() {
	k.making.Lock()
	defer k.making.Unlock()
	k.adopt()
	drop(k.useless())
	k.mu.Lock()
	kind, maker, isReady := k.kind, k.make, k.ready != nil
	k.mu.Unlock()
	if maker == nil || isReady {
		return
	}
	made, err := maker()
	k.mu.Lock()
	switch {
	case err != nil:
		k.log.Printf("a machine that waits: %v", err)
		k.make = nil
	case made == nil:
		k.make = nil
	case k.make != nil && !k.isClosed:
		k.ready, k.readyFor, made = made, kind, nil
	}
	k.mu.Unlock()
	if err == nil {
		drop(made)
	}
}

func drop(machine Machine) {
	if machine != nil {
		machine.Discard()
	}
}

// Forget ends the machine that waits if the name of its kind begins so. It does not wait for one that is
// being made, which ends when it is ready.
func (k *Keeper) Forget(prefix string) {
	k.mu.Lock()
	if strings.HasPrefix(k.kind, prefix) {
		k.make = nil
	}
	if k.next != nil && strings.HasPrefix(k.next.Kind, prefix) {
		k.next = nil
	}
	var found Machine
	if k.ready != nil && strings.HasPrefix(k.readyFor, prefix) {
		found, k.ready = k.ready, nil
	}
	k.mu.Unlock()
	drop(found)
}

// Drop ends the machine that waits, or is being made. None is made until the next sandbox starts.
func (k *Keeper) Drop() {
	k.mu.Lock()
	k.make, k.next = nil, nil
	k.mu.Unlock()
	k.making.Lock()
	defer k.making.Unlock()
	k.mu.Lock()
	found := k.ready
	k.ready = nil
	k.mu.Unlock()
	drop(found)
}

// Close ends the machine that waits, and no other is made. It may be called more than once.
func (k *Keeper) Close() {
	k.mu.Lock()
	if !k.isClosed {
		k.isClosed = true
		close(k.done)
	}
	k.mu.Unlock()
	k.Drop()
	k.wait.Wait()
}
