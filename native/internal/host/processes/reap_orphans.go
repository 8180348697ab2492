package processes

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// collectDelay is how long podhost's own code may take to collect a child that it started.
	collectDelay = 50 * time.Millisecond
	// maxCollectDelays is how many times ReapOrphans waits that long before it waits for the next signal.
	maxCollectDelays = 100
)

// ReapOrphans runs until ctx ends. podhost inherits one process for each sandbox: the one that the runtime
// leaves behind on its way into the namespaces. Until it is collected it holds a process id and counts
// against its user's limit on processes.
func ReapOrphans(ctx context.Context) {
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
		for tries := 0; tries < maxCollectDelays; {
			child := endedChild()
			if child == 0 {
				break
			}
			if isOrphan(child, own) {
				unix.Wait4(child, nil, unix.WNOHANG, nil)
				continue
			}
			// The kernel shows only the first ended child, so an orphan may be behind this one.
			tries++
			time.Sleep(collectDelay)
		}
	}
}

// endedChild returns a child that has ended and was not collected yet, or 0.
func endedChild() int {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		return 0
	}
	return int(childInfoOf(&info).pid)
}

// isOrphan decides by the session. Processes that podhost starts stay in podhost's session, and podd leads
// its own. A process that detached itself from the runtime is in a session with another leader.
func isOrphan(pid, own int) bool {
	session, err := unix.Getsid(pid)
	return err == nil && session != own && session != pid
}
