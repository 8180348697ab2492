package host

import "sync"

// hub passes events to every connection.
type hub struct {
	mu    sync.Mutex
	peers map[*conn]struct{}
}

func newHub() *hub { return &hub{peers: map[*conn]struct{}{}} }

func (b *hub) join(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers[c] = struct{}{}
}

func (b *hub) leave(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.peers, c)
}

func (b *hub) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.peers)
}

func (b *hub) publish(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.peers {
		c.send(event)
	}
}

// keyedLocks serialise work on one sandbox or layer; different keys do not wait for each other.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// lock returns the function that unlocks.
func (k *keyedLocks) lock(key string) func() {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[string]*keyedLock{}
	}
	l := k.held[key]
	if l == nil {
		l = &keyedLock{}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, key)
		}
	}
}
