package host

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentpod/native/internal/mount"
	"agentpod/native/internal/netns"
)

// A spare is what a sandbox is going to live in: a sealed user namespace, and a network namespace with podd's sockets in it.
type spare struct {
	mount.Namespaces
	network *netns.Network
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
func makeSpare(ids mount.Range, owner int) (*spare, error) {
	namespaces, err := mount.NewNamespaces(ids, owner)
	if err == nil {
		network := netns.Furnish(namespaces)
		if network.Level.Level == netns.None {
			// What is half furnished is of no use, and the runtime makes its own.
			namespaces.Network.Close()
			namespaces.Network = nil
		}
		return &spare{namespaces, network}, nil
	}
	user, second := mount.NewUserNamespace(ids, true, owner)
	if second != nil {
		return nil, second
	}
	return &spare{mount.Namespaces{User: user}, &netns.Network{Level: netns.NoWay("network namespace: %v", err)}}, nil
}

// namespacePool keeps spares ready: making one costs three milliseconds, more than any mount of a sandbox.
type namespacePool struct {
	ids  mount.Range
	turn uint32
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

// Owners are ids in the middle of the range, one after the other from a random start: none of them is anybody's on the host, and two
// sandboxes that live at the same time do not share one.
const (
	firstOwner = 10000
	owners     = 50000
)

func (p *namespacePool) make() (*spare, error) {
	owner := firstOwner + int(atomic.AddUint32(&p.turn, 1))%owners
	made, err := makeSpare(p.ids, p.ids.Base+owner)
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

func newNamespacePool(ids mount.Range) *namespacePool {
	p := &namespacePool{ids: ids, turn: uint32(time.Now().UnixNano()), ready: make(chan *spare, spareNamespaces), want: make(chan struct{}, 1),
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
		(<-p.ready).close()
	}
}
