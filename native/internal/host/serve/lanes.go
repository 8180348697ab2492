package serve

import (
	"sync"

	"agentpod/native/internal/hostproto"
)

const (
	// maxLong is the number of long requests that run at a time.
	maxLong = 4
	// maxWaiting is the number of long requests that may wait for their turn.
	maxWaiting = 64
)

// lanes separates long requests from ordinary ones, so that a few imports do not block every other request.
type lanes struct {
	long    chan struct{}
	waiting chan struct{}
}

func newLanes() lanes {
	return lanes{long: make(chan struct{}, maxLong), waiting: make(chan struct{}, maxWaiting)}
}

// A slot is one request's place among the ordinary requests that run. work is the semaphore that it came
// from.
type slot struct {
	once sync.Once
	work chan struct{}
}

// release gives the slot back. A second call does nothing.
func (s *slot) release() { s.once.Do(func() { <-s.work }) }

// enterLong moves a request from the ordinary lane to the long one and waits until it may run. The caller
// calls done at the end. The caller must not hold a lock, because the wait can take minutes.
func (l *lanes) enterLong(s *slot, stopping <-chan struct{}) (done func(), err error) {
	select {
	case l.waiting <- struct{}{}:
	default:
		return nil, hostproto.Errorf(hostproto.ResourceExhausted, "host.busy",
			"podhost is busy: %d imports, exports and copies are waiting", maxWaiting).
			WithHint("try again when some of them have finished")
	}
	defer func() { <-l.waiting }()
	s.release()
	select {
	case l.long <- struct{}{}:
		return func() { <-l.long }, nil
	case <-stopping:
		return nil, hostproto.Errorf(hostproto.Unavailable, "host.leaving", "podhost is stopping").WithHint("try again")
	}
}
