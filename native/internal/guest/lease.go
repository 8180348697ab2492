package guest

import (
	"sync"
	"time"
)

// Lease ends the sandbox at a deadline, or after a time without requests. Both use the monotonic clock, so a
// change of the wall clock does not move them.
type Lease struct {
	mu       sync.Mutex
	deadline time.Time
	idle     time.Duration
	last     time.Time
	open     int
	changed  chan struct{}
}

// Terms of a lease; zero means no limit.
type Terms struct {
	RemainingMs int64 `json:"remainingMs"`
	IdleMs      int64 `json:"idleMs"`
}

// maxTerm keeps a term within the range of a Duration.
const maxTerm = int64(1) << 42

func newLease() *Lease {
	return &Lease{last: time.Now(), changed: make(chan struct{}, 1)}
}

// Set replaces the terms, counted from now.
func (l *Lease) Set(terms Terms) bool {
	if terms.RemainingMs < 0 || terms.IdleMs < 0 || terms.RemainingMs > maxTerm || terms.IdleMs > maxTerm {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = time.Time{}
	if terms.RemainingMs > 0 {
		l.deadline = time.Now().Add(time.Duration(terms.RemainingMs) * time.Millisecond)
	}
	l.idle = time.Duration(terms.IdleMs) * time.Millisecond
	l.last = time.Now()
	l.poke()
	return true
}

// Enter marks a request as open. The function that it returns marks the request as finished.
func (l *Lease) Enter() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		l.last = time.Now()
		if l.open == 0 && l.idle > 0 {
			l.poke()
		}
	}
}

// IdleFor is how long there has been no open request.
func (l *Lease) IdleFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 {
		return 0
	}
	return time.Since(l.last)
}

func (l *Lease) poke() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Wait returns when the lease has expired.
func (l *Lease) Wait() {
	for {
		left, limited := l.left()
		if limited && left <= 0 {
			return
		}
		var timeout <-chan time.Time
		var timer *time.Timer
		if limited {
			timer = time.NewTimer(left)
			timeout = timer.C
		}
		select {
		case <-l.changed:
		case <-timeout:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

func (l *Lease) left() (left time.Duration, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.deadline.IsZero() {
		left, limited = time.Until(l.deadline), true
	}
	if l.idle > 0 && l.open == 0 {
		if idle := time.Until(l.last.Add(l.idle)); !limited || idle < left {
			left, limited = idle, true
		}
	}
	return left, limited
}
