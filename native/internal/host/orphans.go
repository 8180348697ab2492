package host

import (
	"context"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// collected is how soon whoever started a child has collected it, and patience how often that is waited for before the next signal.
const (
	collected = 50 * time.Millisecond
	patience  = 100
)

// reapOrphans runs until ctx ends. podhost inherits what the runtime leaves behind on its way into the namespaces, one process for each
// sandbox; unless somebody waits for it, it holds a process id, and a place among its user's processes, as long as podhost lives.
func reapOrphans(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	defer signal.Stop(signals)
	own, _ := unix.Getsid(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		for tries := 0; tries < patience; {
			child := endedChild()
			if child == 0 {
				break
			}
			if isOrphan(child, own) {
				unix.Wait4(child, nil, unix.WNOHANG, nil)
				continue
			}
			// The kernel shows only the first.
			tries++
			time.Sleep(collected)
		}
	}
}

// endedChild is a child that nobody has collected yet, or 0.
func endedChild() int {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		return 0
	}
	return int((*childInfo)(unsafe.Pointer(&info)).pid)
}

// isOrphan tells by the session: what podhost starts stays in podhost's, podd leads its own, and what detached itself from the runtime is
// in one that somebody else led.
func isOrphan(pid, own int) bool {
	session, err := unix.Getsid(pid)
	return err == nil && session != own && session != pid
}
