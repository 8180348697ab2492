package lifecycle

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// unmountQuiet is how long no sandbox was destroyed before the mounts of the last ones are removed.
	unmountQuiet = 100 * time.Millisecond
	// unmountBatch is how many destroyed sandboxes may have mounts without a quiet moment.
	unmountBatch = 16
)

// unmounts removes the mounts of destroyed sandboxes, several at a time. The kernel writes the whole pool to
// the disk when it unmounts an overlay: after the first of a batch there is hardly anything left to write.
type unmounts struct {
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
func (u *unmounts) Begin() { u.left.Add(1) }

// Add takes over the descriptor of a mount namespace, and removes the mounts soon.
func (u *unmounts) Add(namespace int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.namespaces = append(u.namespaces, namespace)
	delay := unmountQuiet
	if u.awaited > 0 || len(u.namespaces) >= unmountBatch {
		delay = 0
	}
	if u.timer == nil {
		u.timer = time.AfterFunc(delay, u.removeAll)
	} else {
		u.timer.Reset(delay)
	}
}

// Remove closes the descriptor of a mount namespace, which removes the mounts.
func (u *unmounts) Remove(namespace int) {
	unix.Close(namespace)
	u.left.Done()
}

func (u *unmounts) removeAll() {
	u.mu.Lock()
	batch := u.namespaces
	u.namespaces = nil
	u.mu.Unlock()
	for _, namespace := range batch {
		u.Remove(namespace)
	}
}

// Await returns when no ended sandbox has mounts.
func (u *unmounts) Await() {
	u.mu.Lock()
	u.awaited++
	u.mu.Unlock()
	u.removeAll()
	u.left.Wait()
	u.mu.Lock()
	u.awaited--
	u.mu.Unlock()
}
