package host

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentpod/native/internal/mount"
)

// namespacePool keeps sealed user namespaces ready: making one costs two milliseconds, more than any mount of a sandbox.
type namespacePool struct {
	ids   mount.Range
	turn  uint32
	ready chan *os.File
	want  chan struct{}
	done  chan struct{}
	wait  sync.WaitGroup
}

const spareNamespaces = 8

// Owners are ids in the middle of the range, one after the other from a random start: none of them is anybody's on the host, and two
// sandboxes that live at the same time do not share one.
const (
	firstOwner = 10000
	owners     = 50000
)

func (p *namespacePool) make() (*os.File, error) {
	owner := firstOwner + int(atomic.AddUint32(&p.turn, 1))%owners
	return mount.NewUserNamespace(p.ids, true, p.ids.Base+owner)
}

func newNamespacePool(ids mount.Range) *namespacePool {
	p := &namespacePool{ids: ids, turn: uint32(time.Now().UnixNano()), ready: make(chan *os.File, spareNamespaces), want: make(chan struct{}, 1), done: make(chan struct{})}
	p.wait.Add(1)
	go p.fill()
	return p
}

func (p *namespacePool) fill() {
	defer p.wait.Done()
	for {
		for len(p.ready) < cap(p.ready) {
			namespace, err := p.make()
			if err != nil {
				// take tries again itself, and reports.
				break
			}
			p.ready <- namespace
		}
		select {
		case <-p.want:
		case <-p.done:
			return
		}
	}
}

// take returns a namespace nobody else has or will have.
func (p *namespacePool) take() (*os.File, error) {
	defer p.refill()
	select {
	case namespace := <-p.ready:
		return namespace, nil
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
		(<-p.ready).Close()
	}
}
