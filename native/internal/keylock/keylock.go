// Package keylock has mutexes by name.
package keylock

import "sync"

// Locks is a set of mutexes by key. Holders of different keys do not wait for each other. The zero value is
// ready.
type Locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// Lock waits for the key and returns the function that unlocks it.
func (k *Locks) Lock(key string) func() {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[string]*lock{}
	}
	l := k.held[key]
	if l == nil {
		l = &lock{}
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
