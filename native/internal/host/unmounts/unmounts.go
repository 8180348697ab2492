// Package unmounts removes the mounts of destroyed sandboxes, after their destroy was answered.
package unmounts

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// quiet is how long no sandbox was destroyed before the mounts of the last ones are removed.
	quiet = 100 * time.Millisecond
	// batch is how many destroyed sandboxes may have mounts without a quiet moment.
	batch = 16
)

// A Queue removes the mounts of destroyed sandboxes, several at a time. The kernel writes the whole pool to
// the disk when it unmounts an overlay: after the first of a batch there is hardly anything left to write.
type Queue struct {
	// left counts the destroyed sandboxes that still have mounts.
	left sync.WaitGroup

	mu sync.Mutex
	// namespaces are the mount namespaces whose processes have ended.
	namespaces []int
	timer      *time.Timer
	// awaited is how many callers wait for the mounts to be removed.
	awaited int
}

// Begin announces a call of Add or of Remove.
func (u *Queue) Begin() { u.left.Add(1) }

// Add takes over the descriptor of a mount namespace, and removes the mounts soon.
func (u *Queue) Add(namespace int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.namespaces = append(u.namespaces, namespace)
	delay := quiet
	if u.awaited > 0 || len(u.namespaces) >= batch {
		delay = 0
	}
	if u.timer == nil {
		u.timer = time.AfterFunc(delay, u.removeAll)
	} else {
		u.timer.Reset(delay)
	}
}

// Remove closes the descriptor of a mount namespace, which removes the mounts.
func (u *Queue) Remove(namespace int) {
	unix.Close(namespace)
	u.left.Done()
}

func (u *Queue) removeAll() {
	u.mu.Lock()
	removed := u.namespaces
	u.namespaces = nil
	u.mu.Unlock()
	for _, namespace := range removed {
		u.Remove(namespace)
	}
}

// Await returns when no ended sandbox has mounts.
func (u *Queue) Await() {
	u.mu.Lock()
	u.awaited++
	u.mu.Unlock()
	u.removeAll()
	u.left.Wait()
	u.mu.Lock()
	u.awaited--
	u.mu.Unlock()
}
