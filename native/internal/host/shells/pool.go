package shells

import (
	"log"
	"sync"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/meminfo"
)

const (
	// Most is the highest number of shells that are kept. Each takes about two megabytes.
	Most = 128
	// mostGVisor is that of gVisor shells, mostAwaiting that of those that await memory. Each takes 30 to 40
	// megabytes.
	mostGVisor   = 32
	mostAwaiting = 4
)

const (
	// maxAge is when a shell is replaced, well before its podd gives up waiting.
	maxAge = 40 * time.Minute
	// retryDelay is how long to wait after two failures in a row, which suggest that the machine has a
	// problem.
	retryDelay = 10 * time.Second
	// firstRetry is how long to wait after one failure, which may be a shell that was killed.
	firstRetry = 50 * time.Millisecond
	// quiet is how long after the last start the pool makes the next shell while enough are ready. A new
	// shell takes the processor for about as long as a start and its first command, which it would slow down.
	quiet = 30 * time.Millisecond
	// minMemory is how much memory must be available, in KiB, to keep shells. Sandboxes must never lack
	// memory because of them.
	minMemory = 1 << 20
)

// Pool keeps shells ready. It makes none before the first sandbox starts: a client that only lists needs
// none.
type Pool struct {
	maker
	most int

	mu     sync.Mutex
	ready  []kept
	demand demand
	// rooted is set if the last sandbox that started could use a ready root. The next shells get one.
	rooted *Sizes
	// rooting is held while a shell gets its root and is added.
	rooting sync.Mutex
	want    chan struct{}
	done    chan struct{}
	once    sync.Once
	wait    sync.WaitGroup
}

type kept struct {
	*Shell
	made time.Time
}

// NewPool returns a pool that keeps at least so many shells ready, and more while many sandboxes start. With
// least 0 it keeps none.
func NewPool(launcher *boot.Launcher, runtime boot.Runtime, least int, logger *log.Logger) *Pool {
	p := &Pool{maker: maker{launcher: launcher, runtime: runtime, log: logger}, most: Most, demand: demand{least: least}, want: make(chan struct{}, 1), done: make(chan struct{})}
	switch {
	case least == 0:
		p.most = 0
	case runtime == boot.GVisor:
		p.most = mostGVisor
	}
	return p
}

// NewMemoryPool returns a pool of gVisor shells that await saved memory. A shell that has started cannot take
// memory any more. It keeps one, once memory was saved or restored.
func NewMemoryPool(launcher *boot.Launcher, keeps bool, logger *log.Logger) *Pool {
	least := 0
	if keeps {
		least = 1
	}
	p := NewPool(launcher, boot.GVisor, least, logger)
	p.awaits = true
	if p.most > mostAwaiting {
		p.most = mostAwaiting
	}
	return p
}

// Expect lets the pool make shells before the first sandbox needs one.
func (p *Pool) Expect() {
	p.Starting()()
	select {
	case p.want <- struct{}{}:
	default:
	}
}

// Begin begins to make shells.
func (p *Pool) Begin(roots RootMaker) {
	p.roots = roots
	p.wait.Add(1)
	go p.fill()
}

// Starting counts a sandbox as starting until the returned function is called.
func (p *Pool) Starting() (started func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.demand.startBegins(time.Now())
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.demand.startEnds(time.Now())
	}
}

// Take returns a shell whose podd was alive a moment ago, or nil. If the sandbox could use a ready root, with
// temporary file systems of these sizes, the shell may have one.
func (p *Pool) Take(rooted *Sizes) *Shell {
	p.mu.Lock()
	p.rooted = rooted
	p.demand.shellAsked(time.Now())
	var shell *Shell
	if rooted != nil {
		shell = p.take(func(shell *Shell) bool { return shell.Root != nil && shell.Root.Sizes == *rooted })
	}
	if shell == nil {
		shell = p.take(func(shell *Shell) bool { return shell.Root == nil })
	}
	p.mu.Unlock()
	select {
	case p.want <- struct{}{}:
	default:
	}
	return shell
}

// take returns the newest shell that fits. The caller holds mu.
func (p *Pool) take(fits func(*Shell) bool) *Shell {
	for n := len(p.ready) - 1; n >= 0; n-- {
		if shell := p.ready[n].Shell; fits(shell) {
			p.ready = append(p.ready[:n], p.ready[n+1:]...)
			return shell
		}
	}
	return nil
}

// Pids returns the first processes of the shells that are ready.
func (p *Pool) Pids() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := make([]int, 0, len(p.ready))
	for _, shell := range p.ready {
		pids = append(pids, shell.Pid)
	}
	return pids
}

func (p *Pool) fill() {
	defer p.wait.Done()
	renew := time.NewTicker(demandWindow / 2)
	defer renew.Stop()
	failures := 0
	for {
		select {
		case <-p.done:
			return
		case <-p.want:
		case <-renew.C:
		}
		p.dropUseless()
		for p.isShort() {
			if !p.awaitQuiet() {
				return
			}
			if p.add() {
				failures = 0
				continue
			}
			pause := firstRetry
			if failures++; failures > 1 {
				pause = retryDelay
			}
			select {
			case <-p.done:
				return
			case <-time.After(pause):
			}
		}
	}
}

// isShort reports whether a shell should be made. When memory is short it drops all shells.
func (p *Pool) isShort() bool {
	select {
	case <-p.done:
		return false
	default:
	}
	isLow := meminfo.AvailableKiB() < minMemory
	if isLow {
		p.dropAll()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isLow && len(p.ready) < p.target() {
		return true
	}
	p.demand.enough()
	return false
}

// awaitQuiet returns when a shell should be made: at once if half of the shells are gone. It returns false
// when the pool closes.
func (p *Pool) awaitQuiet() bool {
	for {
		p.mu.Lock()
		pause := p.demand.untilQuiet(time.Now())
		// A shell that awaits memory takes the processor for longer than it saves.
		isUrgent := !p.awaits && 2*len(p.ready) < p.target()
		p.mu.Unlock()
		if isUrgent || pause <= 0 {
			return true
		}
		select {
		case <-p.done:
			return false
		case <-p.want:
			// It may be urgent now.
		case <-time.After(pause):
		}
	}
}

// target is how many shells should be ready. The caller holds mu.
func (p *Pool) target() int {
	if wanted := p.demand.target(time.Now()); wanted < p.most {
		return wanted
	}
	return p.most
}

// add makes a shell.
func (p *Pool) add() bool {
	shell, err := p.Start(nil, false)
	if err == nil {
		if err = p.AwaitReady(shell); err == nil {
			err = p.addReady(shell)
		}
		if err != nil {
			p.Discard(shell)
		}
	}
	if err != nil {
		p.log.Printf("shell: %v", err)
		return false
	}
	return true
}

// addReady adds a shell that serves. It gets a root if the last sandbox could use one, but the last of the
// shells that are wanted stays in the blank root, for a sandbox of another kind.
func (p *Pool) addReady(shell *Shell) error {
	p.rooting.Lock()
	defer p.rooting.Unlock()
	p.mu.Lock()
	rooted, isOther := p.rooted, len(p.ready)+1 < p.target()
	for _, one := range p.ready {
		isOther = isOther || one.Root == nil
	}
	p.mu.Unlock()
	if rooted != nil && isOther {
		if err := p.roots.GiveRoot(shell, *rooted); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = append(p.ready, kept{shell, time.Now()})
	p.demand.shellMade()
	return nil
}

// dropUseless ends shells that are old or more than needed, and removes the rest of those whose podd has
// ended. Of shells with ready roots it keeps those that a sandbox would get now; one if the last sandbox
// could not use any.
func (p *Pool) dropUseless() {
	p.mu.Lock()
	most, mostRooted := p.target(), p.target()
	if p.rooted == nil {
		mostRooted = 1
	}
	p.mu.Unlock()
	rooted := 0
	p.dropUnless(func(n int, shell kept) bool {
		if shell.Root != nil {
			rooted++
			if rooted > mostRooted || !p.roots.IsCurrent(shell.Root) {
				return false
			}
		}
		return n < most && time.Since(shell.made) < maxAge && shell.IsAlive()
	})
}

// dropUnless ends every shell but those to keep. n is how many are kept already.
func (p *Pool) dropUnless(keep func(n int, shell kept) bool) {
	p.mu.Lock()
	var remaining, useless []kept
	for _, shell := range p.ready {
		if keep(len(remaining), shell) {
			remaining = append(remaining, shell)
		} else {
			useless = append(useless, shell)
		}
	}
	p.ready = remaining
	p.mu.Unlock()
	for _, shell := range useless {
		p.Discard(shell.Shell)
	}
}

func (p *Pool) dropAll() { p.dropUnless(func(int, kept) bool { return false }) }

// DropRoots ends the shells with ready roots. The pool makes none until a sandbox could use one again.
func (p *Pool) DropRoots() {
	p.mu.Lock()
	p.rooted = nil
	p.mu.Unlock()
	// A root that is being made is added first.
	p.rooting.Lock()
	defer p.rooting.Unlock()
	p.dropUnless(func(_ int, shell kept) bool { return shell.Root == nil })
}

// Close ends every shell and makes no more. It may be called more than once.
func (p *Pool) Close() {
	p.once.Do(func() { close(p.done) })
	p.wait.Wait()
	p.dropAll()
}
