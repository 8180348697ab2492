package host

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

// A spare is what a sandbox is going to live in: a sealed user namespace, and a network namespace with podd's sockets in it.
type spare struct {
	mount.Namespaces
	network *netns.Network
	ids     *ids.Range
}

func (s *spare) close() {
	s.network.Close()
	s.Namespaces.Close()
}

// pathOf is where the runtime finds a namespace, as long as podhost has it open; "" means that the runtime makes one.
func pathOf(namespace *os.File) string {
	if namespace == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), namespace.Fd())
}

// makeSpare fails only without a user namespace. Without a network namespace of podhost's making the sandbox has no way out.
func makeSpare(r *ids.Range) (*spare, error) {
	namespaces, err := mount.NewNamespaces(r.Range, r.Owner)
	if err == nil {
		network := netns.Furnish(namespaces)
		if network.Level.Level == netns.None {
			// What is half furnished is of no use, and the runtime makes its own.
			namespaces.Network.Close()
			namespaces.Network = nil
		}
		return &spare{namespaces, network, r}, nil
	}
	user, second := mount.NewUserNamespace(r.Range, r.Owner)
	if second != nil {
		return nil, second
	}
	return &spare{mount.Namespaces{User: user}, &netns.Network{Level: netns.NoWay("network namespace: %v", err)}, r}, nil
}

// namespacePool keeps spares ready: making one costs three milliseconds, more than any mount of a sandbox.
type namespacePool struct {
	ids *ids.Allocator
	// taken is when the last one was, in nanoseconds.
	taken int64
	ready chan *spare
	want  chan struct{}
	done  chan struct{}
	wait  sync.WaitGroup

	// known is closed when level is there: what the first spare has got.
	known chan struct{}
	once  sync.Once
	level netns.Level
}

const (
	spareNamespaces = 8
	// fewSpares are made up for at once. Otherwise spares are made when no start has come for spareQuiet: a process that is being started holds
	// up every other one that podhost starts.
	fewSpares  = 3
	spareQuiet = 50 * time.Millisecond
)

func (p *namespacePool) make() (*spare, error) {
	made, err := p.tryMake()
	p.once.Do(func() {
		if err != nil {
			p.level = netns.NoWay("%v", err)
		} else {
			p.level = made.network.Level
		}
		close(p.known)
	})
	return made, err
}

func (p *namespacePool) tryMake() (*spare, error) {
	r, err := p.ids.Take()
	if err != nil {
		return nil, err
	}
	made, err := makeSpare(r)
	if err != nil {
		p.ids.Release(r.Base)
	}
	return made, err
}

func newNamespacePool(from *ids.Allocator) *namespacePool {
	p := &namespacePool{ids: from, ready: make(chan *spare, spareNamespaces), want: make(chan struct{}, 1),
		done: make(chan struct{}), known: make(chan struct{})}
	p.wait.Add(1)
	go p.fill()
	return p
}

// network is what a sandbox can expect here. It waits for the first spare, which is made as soon as podhost begins.
func (p *namespacePool) network() netns.Level {
	<-p.known
	return p.level
}

func (p *namespacePool) fill() {
	defer p.wait.Done()
	for {
		for len(p.ready) < cap(p.ready) {
			if p.waitForQuiet() {
				return
			}
			made, err := p.make()
			if err != nil {
				// take tries again itself, and reports.
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

// waitForQuiet returns true when the pool closes meanwhile.
func (p *namespacePool) waitForQuiet() (closing bool) {
	for len(p.ready) >= fewSpares {
		left := spareQuiet - time.Since(time.Unix(0, atomic.LoadInt64(&p.taken)))
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

// discard closes a spare that nothing has lived in.
func (p *namespacePool) discard(s *spare) {
	s.close()
	p.ids.Release(s.ids.Base)
}

// take returns a spare nobody else has or will have.
func (p *namespacePool) take() (*spare, error) {
	atomic.StoreInt64(&p.taken, time.Now().UnixNano())
	defer p.refill()
	select {
	case made := <-p.ready:
		return made, nil
	default:
		return p.make()
	}
}

func (p *namespacePool) refill() {
	select {
	case p.want <- struct{}{}:
	default:
	}
}

func (p *namespacePool) close() {
	close(p.done)
	p.wait.Wait()
	for len(p.ready) > 0 {
		p.discard(<-p.ready)
	}
}
