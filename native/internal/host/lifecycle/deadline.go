package lifecycle

import (
	"time"

	"agentpod/native/internal/hostproto"
)

// grace is how long after its deadline podhost acts on a sandbox. podd knows the same deadline and should act
// first.
const grace = 2 * time.Second

func (l *live) isOverdue(now time.Time) bool {
	return l.deadlineMs > 0 && now.UnixMilli() >= l.deadlineMs+grace.Milliseconds()
}

// SetDeadline changes the deadline of a sandbox.
func (s *Sandboxes) SetDeadline(args hostproto.SetDeadline) (any, error) {
	handle, err := s.existing(args.ID)
	if err != nil {
		return nil, err
	}
	handle.DeadlineMs = args.DeadlineMs
	if err := s.save(handle); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live[args.ID]; l != nil {
		l.deadlineMs = args.DeadlineMs
	}
	return map[string]any{}, nil
}

// ExpireOverdue pauses, stops or kills the sandboxes whose deadline has passed. It compares wall clocks each
// time, so it notices within a second when the clock jumps. It needs no lock.
func (s *Sandboxes) ExpireOverdue(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.live {
		if l.destroying || l.paused || l.expiring || !l.isOverdue(now) {
			continue
		}
		if l.whenOver == hostproto.OverPause || l.whenOver == hostproto.OverStop {
			l.expiring = true
			id := l.id
			s.task(func() { s.expire(id) })
			continue
		}
		s.killExpired(l)
	}
}

// killExpired kills a sandbox because of its deadline. The caller holds s.mu.
func (s *Sandboxes) killExpired(l *live) {
	l.expired = true
	if err := l.kill(); err != nil {
		s.Log.Printf("%s: expire: %v", l.id, err)
	}
}

// expire pauses or stops a sandbox whose deadline has passed, and kills it if that fails.
func (s *Sandboxes) expire(id string) {
	defer s.lock(id)()
	s.mu.Lock()
	l := s.live[id]
	isDue := l != nil && !l.paused && l.isOverdue(time.Now())
	if l != nil {
		l.expiring = false
	}
	s.mu.Unlock()
	if !isDue {
		return
	}
	var err error
	if l.whenOver == hostproto.OverPause {
		if _, err = s.Pause(id); err == nil {
			s.Publish(map[string]any{"event": "sandbox.paused", "id": id})
		}
	} else if err = s.stopNow(id, true); err == nil {
		s.announceExit(id, false, true)
	}
	if err != nil {
		s.Log.Printf("%s: its deadline has passed, and %s failed: %v: killing it", id, l.whenOver, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !l.destroying {
			s.killExpired(l)
		}
	}
}

// stopExpired stops a sandbox whose podd ended because of the deadline.
func (s *Sandboxes) stopExpired(id string) {
	defer s.lock(id)()
	if _, ended := s.loadExit(id); !ended {
		return
	}
	if err := s.stopNow(id, true); err != nil {
		s.Log.Printf("%s: stop: %v", id, err)
	}
	s.announceExit(id, false, true)
}
