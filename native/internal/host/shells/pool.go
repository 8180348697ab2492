package shells

import (
	"bufio"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/statedir"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/safefs"
)

// Most is the highest number of shells that can be kept. Each takes about three megabytes.
const Most = 64

const (
	// quiet is how long no start may have come before shells are made, so that they do not compete with
	// sandboxes.
	quiet = 50 * time.Millisecond
	// maxAge is when a shell is replaced, well before its podd gives up waiting.
	maxAge = 40 * time.Minute
	// retryDelay is how long to wait after two failures in a row, which suggest that the machine has a
	// problem.
	retryDelay = 10 * time.Second
	// minMemory is how much memory must be available, in KiB, to keep shells. Sandboxes must never lack
	// memory because of them.
	minMemory = 1 << 20
)

// Pool keeps shells ready. It makes none before the first sandbox starts: a client that only lists needs
// none.
type Pool struct {
	maker
	most int

	mu    sync.Mutex
	ready []*Shell
	last  time.Time
	want  chan struct{}
	done  chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
}

// NewPool returns a pool of at most so many shells, which run the program podd. With most 0 it keeps none.
func NewPool(launcher *boot.Launcher, podd string, most int, logger *log.Logger) *Pool {
	p := &Pool{maker: maker{launcher, podd, logger}, most: most, want: make(chan struct{}, 1), done: make(chan struct{})}
	p.wait.Add(1)
	go p.fill()
	return p
}

// Take returns a shell whose podd was alive a moment ago, or nil.
func (p *Pool) Take() *Shell {
	p.mu.Lock()
	p.last = time.Now()
	var shell *Shell
	if n := len(p.ready); n > 0 {
		shell = p.ready[n-1]
		p.ready = p.ready[:n-1]
	}
	p.mu.Unlock()
	select {
	case p.want <- struct{}{}:
	default:
	}
	return shell
}

// Discard ends a shell that was taken and is of no use.
func (p *Pool) Discard(shell *Shell) { p.discard(shell) }

// EndKeepingIDs ends a shell that was taken. Its ids are not freed: the caller owns them now.
func (p *Pool) EndKeepingIDs(shell *Shell) (*ids.Range, error) {
	kept := shell.IDs
	shell.UIDBase = 0
	return kept, p.end(shell)
}

func (p *Pool) fill() {
	defer p.wait.Done()
	renew := time.NewTicker(time.Minute)
	defer renew.Stop()
	hadFailed := false
	for {
		select {
		case <-p.done:
			return
		case <-p.want:
		case <-renew.C:
		}
		p.dropUseless()
		for p.isShort() {
			pause := p.tooSoon()
			if pause == 0 {
				pause = p.add()
				// After one failure, which may be a shell that was killed, it tries again soon.
				hasFailed := pause == retryDelay
				if hasFailed && !hadFailed {
					pause = quiet
				}
				hadFailed = hasFailed
			}
			select {
			case <-p.done:
				return
			case <-time.After(pause):
			}
		}
	}
}

// isShort reports whether a shell should be made. When memory is short it drops all shells.
func (p *Pool) isShort() bool {
	if availableMemory() < minMemory {
		p.dropAll()
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready) < p.most && !p.last.IsZero()
}

// tooSoon returns how long to wait until no start has come for a while.
func (p *Pool) tooSoon() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := time.Since(p.last); since < quiet {
		return quiet - since
	}
	return 0
}

func (p *Pool) add() (pause time.Duration) {
	shell, err := p.make()
	if err != nil {
		p.log.Printf("shell: %v", err)
		return retryDelay
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = append(p.ready, shell)
	return 0
}

// dropUseless ends shells that are old, and removes the rest of those whose podd has ended.
func (p *Pool) dropUseless() {
	p.dropUnless(func(shell *Shell) bool { return time.Since(shell.made) < maxAge && shell.IsAlive() })
}

// dropUnless ends every shell but those to keep.
func (p *Pool) dropUnless(keep func(shell *Shell) bool) {
	p.mu.Lock()
	var kept, useless []*Shell
	for _, shell := range p.ready {
		if keep(shell) {
			kept = append(kept, shell)
		} else {
			useless = append(useless, shell)
		}
	}
	p.ready = kept
	p.mu.Unlock()
	for _, shell := range useless {
		p.discard(shell)
	}
}

func (p *Pool) dropAll() { p.dropUnless(func(*Shell) bool { return false }) }

// Close ends every shell and makes no more. It may be called more than once.
func (p *Pool) Close() {
	p.once.Do(func() { close(p.done) })
	p.wait.Wait()
	p.dropAll()
}

// Sweep removes the files of shells of an earlier podhost that no sandbox uses. Their processes ended with
// that podhost.
func (p *Pool) Sweep(used map[string]bool) {
	dir := filepath.Join(p.launcher.Home, "shells")
	for _, name := range statedir.IDs(dir) {
		if used[name] {
			continue
		}
		for _, parent := range []string{filepath.Join(p.launcher.Home, "run/runtime"), dir} {
			if err := safefs.RemoveTree(parent, name); err != nil {
				p.log.Printf("shell %s: %v", name, err)
			}
		}
	}
}

// availableMemory is in KiB. If the kernel does not report it, there is enough.
func availableMemory() int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return minMemory
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), ":"); name == "MemAvailable" {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib
		}
	}
	return minMemory
}
