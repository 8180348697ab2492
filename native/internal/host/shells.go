package host

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MostShells bounds what can be asked for: each takes some three megabytes.
const MostShells = 64

const (
	// shellQuiet is how long no start may have come before shells are made: they are not to compete with
	// sandboxes.
	shellQuiet = 50 * time.Millisecond
	// shellAge is when a shell is replaced, well before its podd gives up waiting.
	shellAge = 40 * time.Minute
	// shellRetry is how long a failure to make one is taken as a hint that this machine is in trouble.
	shellRetry = 10 * time.Second
	// shellMemory is what must be available, in KiB, for shells to be kept: they must never be what a sandbox
	// lacks.
	shellMemory = 1 << 20
)

// shells keeps blank shells ready. None is made before the first sandbox: who only lists has no use for them.
type shells struct {
	host *Host
	most int

	mu    sync.Mutex
	ready []readyShell
	last  time.Time
	want  chan struct{}
	done  chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
}

type readyShell struct {
	handle *Handle
	made   time.Time
}

// newShells begins; most 0 keeps none.
func newShells(h *Host, most int) *shells {
	s := &shells{host: h, most: most, want: make(chan struct{}, 1), done: make(chan struct{})}
	s.wait.Add(1)
	go s.fill()
	return s
}

// take returns a shell whose podd lived a moment ago, or nil.
func (s *shells) take() *Handle {
	s.mu.Lock()
	s.last = time.Now()
	var shell *Handle
	if n := len(s.ready); n > 0 {
		shell = s.ready[n-1].handle
		s.ready = s.ready[:n-1]
	}
	s.mu.Unlock()
	s.poke()
	return shell
}

func (s *shells) poke() {
	select {
	case s.want <- struct{}{}:
	default:
	}
}

func (s *shells) fill() {
	defer s.wait.Done()
	renew := time.NewTicker(time.Minute)
	defer renew.Stop()
	hadFailed := false
	for {
		select {
		case <-s.done:
			return
		case <-s.want:
		case <-renew.C:
		}
		s.dropUseless()
		for s.isShort() {
			pause := s.tooSoon()
			if pause == 0 {
				pause = s.add()
				// One failure may be a shell that was killed; the next try says more.
				hasFailed := pause == shellRetry
				if hasFailed && !hadFailed {
					pause = shellQuiet
				}
				hadFailed = hasFailed
			}
			select {
			case <-s.done:
				return
			case <-time.After(pause):
			}
		}
	}
}

// isShort reports whether a shell should be made. Shells that memory is too short for are let go.
func (s *shells) isShort() bool {
	if availableMemory() < shellMemory {
		s.dropAll()
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready) < s.most && !s.last.IsZero()
}

// tooSoon is how long to wait for quiet.
func (s *shells) tooSoon() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.last); since < shellQuiet {
		return shellQuiet - since
	}
	return 0
}

func (s *shells) add() (pause time.Duration) {
	handle, err := s.host.makeShell()
	if err != nil {
		s.host.log.Printf("shell: %v", err)
		return shellRetry
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, readyShell{handle, time.Now()})
	return 0
}

// dropUseless ends shells that are old, and what is left of those whose podd has ended by itself.
func (s *shells) dropUseless() {
	s.dropUnless(func(shell readyShell) bool {
		return time.Since(shell.made) < shellAge && startTime(shell.handle.Pid) == shell.handle.StartTime
	})
}

// dropUnless ends every shell but those to keep.
func (s *shells) dropUnless(keep func(shell readyShell) bool) {
	s.mu.Lock()
	var kept, useless []readyShell
	for _, shell := range s.ready {
		if keep(shell) {
			kept = append(kept, shell)
		} else {
			useless = append(useless, shell)
		}
	}
	s.ready = kept
	s.mu.Unlock()
	for _, shell := range useless {
		s.host.discardShell(shell.handle)
	}
}

// dropAll keeps none.
func (s *shells) dropAll() { s.dropUnless(func(readyShell) bool { return false }) }

// close ends every shell and makes no more.
func (s *shells) close() {
	s.once.Do(func() { close(s.done) })
	s.wait.Wait()
	s.dropAll()
}

// availableMemory is in KiB; where the kernel does not say, there is enough.
func availableMemory() int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return shellMemory
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), ":"); name == "MemAvailable" {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib
		}
	}
	return shellMemory
}
