package files

import (
	"crypto/rand"
	"encoding/hex"
	"sync"

	"agentpod/native/internal/connect"
)

const (
	maxWatchers = 64
	// maxHeld bounds the events that wait to be fetched. A client that does not fetch them loses its watcher.
	maxHeld = 8192
)

// Watchers are the watches whose events a client fetches by polling.
type Watchers struct {
	mu   sync.Mutex
	byID map[string]*watcher
}

type watcher struct {
	watch  *Watch
	mu     sync.Mutex
	events []Event
	err    error
}

// NewWatchers returns an empty set.
func NewWatchers() *Watchers { return &Watchers{byID: map[string]*watcher{}} }

// Create starts a watch and returns its name.
func (ws *Watchers) Create(actor Actor, dir string, options WatchOptions) (string, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byID) >= maxWatchers {
		return "", connect.Errorf(connect.ResourceExhausted, "more than %d watchers", maxWatchers)
	}
	watch, err := actor.Watch(dir, options)
	if err != nil {
		return "", err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		watch.Close()
		return "", err
	}
	id := "w" + hex.EncodeToString(random[:])
	w := &watcher{watch: watch}
	ws.byID[id] = w
	go w.collect()
	return id, nil
}

func (w *watcher) collect() {
	for {
		events, err := w.watch.Next()
		w.mu.Lock()
		w.events = append(w.events, events...)
		if err == nil && len(w.events) > maxHeld {
			err = connect.Errorf(connect.DataLoss, "more than %d events were not fetched", maxHeld)
		}
		w.err = err
		w.mu.Unlock()
		if err != nil {
			w.watch.Close()
			return
		}
	}
}

// Events returns what has happened since the last call.
func (ws *Watchers) Events(id string) ([]Event, error) {
	ws.mu.Lock()
	w := ws.byID[id]
	ws.mu.Unlock()
	if w == nil {
		return nil, connect.Errorf(connect.NotFound, "watcher %.64q not found", id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	if len(events) == 0 && w.err != nil {
		return nil, w.err
	}
	return events, nil
}

// Remove ends a watch.
func (ws *Watchers) Remove(id string) error {
	ws.mu.Lock()
	w := ws.byID[id]
	delete(ws.byID, id)
	ws.mu.Unlock()
	if w == nil {
		return connect.Errorf(connect.NotFound, "watcher %.64q not found", id)
	}
	w.watch.Close()
	return nil
}
