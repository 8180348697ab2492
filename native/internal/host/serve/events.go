package serve

import "sync"

// events is the set of connections. Every event goes to all of them.
type events struct {
	mu          sync.Mutex
	connections map[*connection]struct{}
}

func (e *events) add(c *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connections[c] = struct{}{}
}

func (e *events) remove(c *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.connections, c)
}

func (e *events) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.connections)
}

func (e *events) publish(event any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.connections {
		c.send(event)
	}
}
