package process

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper owns wait4: podd is PID 1, so orphans of any depth become its children.
//
// INVARIANT: a pid in waiting is not reaped, so its number is not reused. Forks and signals hold the lock for
// reading, reaping holds it for writing. So a child that ends immediately is registered before it is reaped.
type Reaper struct {
	reaping sync.RWMutex
	mu      sync.Mutex
	waiting map[int]*child
}

// child is one fork that a goroutine waits for; died receives its status once.
type child struct {
	pid  int
	died chan unix.WaitStatus
}

// NewReaper reaps whenever children ticks.
func NewReaper(children <-chan os.Signal) *Reaper {
	r := &Reaper{waiting: map[int]*child{}}
	go func() {
		for range children {
			r.reap()
		}
	}()
	return r
}

func (r *Reaper) reap() {
	r.reaping.Lock()
	defer r.reaping.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
		if c := r.waiting[pid]; c != nil {
			delete(r.waiting, pid)
			c.died <- status
		}
	}
}

// start forks and registers the child.
func (r *Reaper) start(fork func() (int, error)) (*child, error) {
	r.reaping.RLock()
	defer r.reaping.RUnlock()
	pid, err := fork()
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, died: make(chan unix.WaitStatus, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[pid] = c
	return c, nil
}

// whileAlive runs f only if the child is not reaped, and prevents reaping meanwhile.
func (r *Reaper) whileAlive(c *child, f func() error) error {
	r.reaping.RLock()
	defer r.reaping.RUnlock()
	r.mu.Lock()
	alive := r.waiting[c.pid] == c
	r.mu.Unlock()
	if !alive {
		return unix.ESRCH
	}
	return f()
}
