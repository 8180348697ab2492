package boot

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/netns"
)

// namespaceSet is a sealed user namespace, and a network namespace with podd's sockets in it.
type namespaceSet struct {
	mount.Namespaces
	network *netns.Network
	ids     *ids.Range
}

func (s *namespaceSet) close() {
	s.network.Close()
	s.Namespaces.Close()
}

// pathOf returns a path that the runtime can open as long as podhost has the namespace open. For nil it is
// "", and the runtime makes a namespace.
func pathOf(namespace *os.File) string {
	if namespace == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), namespace.Fd())
}

// makeNamespaces fails only if it cannot make a user namespace. If it cannot make a network namespace, the
// sandbox has no egress.
func makeNamespaces(r *ids.Range) (*namespaceSet, error) {
	namespaces, err := mount.NewNamespaces(r.Range, r.Owner)
	if err == nil {
		network := netns.Setup(namespaces)
		if network.Level.Level == netns.None {
			// A network namespace without podd's sockets is useless, and the runtime makes its own.
			namespaces.Network.Close()
			namespaces.Network = nil
		}
		return &namespaceSet{namespaces, network, r}, nil
	}
	user, second := mount.NewUserNamespace(r.Range, r.Owner)
	if second != nil {
		return nil, second
	}
	return &namespaceSet{mount.Namespaces{User: user}, &netns.Network{Level: netns.Unavailable("network namespace: %v", err)}, r}, nil
}

// NamespacePool keeps namespaces ready. Making a set takes three milliseconds, longer than any mount of a
// sandbox.
type NamespacePool struct {
	ids *ids.Allocator
	// taken is the time at which the last set was taken, in nanoseconds.
	taken int64
	ready chan *namespaceSet
	want  chan struct{}
	done  chan struct{}
	wait  sync.WaitGroup

	// known is closed when level is set, which the first set decides.
	known chan struct{}
	once  sync.Once
	level netns.Level
}

const (
	readyNamespaces = 8
	// With fewer than minNamespaces ready, more are made at once. Otherwise they are made when no start has
	// come for namespaceQuiet: while podhost starts one process it cannot start another.
	minNamespaces  = 3
	namespaceQuiet = 50 * time.Millisecond
)

// NewNamespacePool returns a pool that begins to fill.
func NewNamespacePool(from *ids.Allocator) *NamespacePool {
	p := &NamespacePool{ids: from, ready: make(chan *namespaceSet, readyNamespaces), want: make(chan struct{}, 1),
		done: make(chan struct{}), known: make(chan struct{})}
	p.wait.Add(1)
	go p.fill()
	return p
}

func (p *NamespacePool) make() (*namespaceSet, error) {
	made, err := p.tryMake()
	p.once.Do(func() {
		if err != nil {
			p.level = netns.Unavailable("%v", err)
		} else {
			p.level = made.network.Level
		}
		close(p.known)
	})
	return made, err
}

func (p *NamespacePool) tryMake() (*namespaceSet, error) {
	r, err := p.ids.Take()
	if err != nil {
		return nil, err
	}
	made, err := makeNamespaces(r)
	if err != nil {
		p.ids.Release(r.Base)
	}
	return made, err
}

// Network returns the level of network that a sandbox gets here. It waits for the first set of namespaces,
// which podhost makes when it starts.
func (p *NamespacePool) Network() netns.Level {
	<-p.known
	return p.level
}

// CheckNetwork tries in new namespaces whether a connection is redirected.
func (p *NamespacePool) CheckNetwork() error {
	made, err := p.make()
	if err != nil {
		return err
	}
	defer p.discard(made)
	return made.network.Try(made.Namespaces)
}

func (p *NamespacePool) fill() {
	defer p.wait.Done()
	for {
		for len(p.ready) < cap(p.ready) {
			if p.waitForQuiet() {
				return
			}
			made, err := p.make()
			if err != nil {
				// take tries again and reports the error.
				break
			}
			p.ready <- made
		}
		select {
		case <-p.want:
		case <-p.done:
			return
		}
	}
}

// waitForQuiet returns true if the pool closes meanwhile.
func (p *NamespacePool) waitForQuiet() (closing bool) {
	for len(p.ready) >= minNamespaces {
		left := namespaceQuiet - time.Since(time.Unix(0, atomic.LoadInt64(&p.taken)))
		if left <= 0 {
			return false
		}
		select {
		case <-p.done:
			return true
		case <-time.After(left):
		}
	}
	return false
}

// discard closes namespaces in which nothing has run.
func (p *NamespacePool) discard(s *namespaceSet) {
	s.close()
	p.ids.Release(s.ids.Base)
}

// take returns namespaces for one sandbox alone.
func (p *NamespacePool) take() (*namespaceSet, error) {
	atomic.StoreInt64(&p.taken, time.Now().UnixNano())
	defer p.refill()
	select {
	case made := <-p.ready:
		return made, nil
	default:
		return p.make()
	}
}

func (p *NamespacePool) refill() {
	select {
	case p.want <- struct{}{}:
	default:
	}
}

// Close stops filling the pool and discards what is ready.
func (p *NamespacePool) Close() {
	close(p.done)
	p.wait.Wait()
	for len(p.ready) > 0 {
		p.discard(<-p.ready)
	}
}
