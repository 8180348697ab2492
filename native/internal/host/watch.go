package host

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// expiredCode is podd's exit code when a lease has run out.
const expiredCode = 79

// grace is how long after its deadline a sandbox ends from here; podd, which knows the same deadline, should be first.
const grace = 2 * time.Second

// live is a sandbox whose first process runs.
type live struct {
	id    string
	pidfd *os.File
	// Guarded by Host.mu.
	deadlineMs int64
	expiring   bool
	destroying bool
	// done is closed when the process is gone and exit.json written.
	done chan struct{}
}

// adopt watches the process if it still is the one that started at started; otherwise it returns nil.
func (h *Host) adopt(id string, pid int, started uint64, deadlineMs int64) (*live, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		if err == unix.ESRCH {
			return nil, nil
		}
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	// The descriptor pins whatever process has the pid now; its start time tells whether that is ours.
	if startTime(pid) != started || started == 0 {
		unix.Close(fd)
		return nil, nil
	}
	l := &live{id: id, pidfd: os.NewFile(uintptr(fd), "pidfd"), deadlineMs: deadlineMs, done: make(chan struct{})}
	h.mu.Lock()
	h.live[id] = l
	h.mu.Unlock()
	h.tasks.Add(1)
	go func() {
		defer h.tasks.Done()
		h.watch(l)
	}()
	return l, nil
}

// watch waits without holding a thread: a pidfd becomes readable when its process ends.
func (h *Host) watch(l *live) {
	defer l.pidfd.Close()
	raw, err := l.pidfd.SyscallConn()
	if err != nil {
		h.log.Printf("%s: watch: %v", l.id, err)
		return
	}
	exit := Exit{}
	err = raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(poll, 0); n == 0 {
			return false
		}
		exit = reap(int(fd))
		return true
	})
	if err != nil {
		// The descriptor was closed under us: podhost is leaving and the sandbox lives on.
		return
	}
	h.ended(l, exit)
}

// reap collects the exit status. A process taken over from an earlier podhost is init's to reap, and its status is not known.
func reap(pidfd int) Exit {
	var info unix.Siginfo
	exit := Exit{AtMs: time.Now().UnixMilli()}
	if err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG, nil); err != nil || info.Signo == 0 {
		return exit
	}
	exit.Known = true
	// siginfo's status follows pid and uid in the part that x/sys leaves untyped.
	status := siginfoStatus(&info)
	if info.Code == cldExited {
		exit.Code = status
	} else {
		exit.Signal = unix.SignalName(unix.Signal(status))
	}
	return exit
}

func (h *Host) ended(l *live, exit Exit) {
	h.mu.Lock()
	delete(h.live, l.id)
	exit.Expired = l.expiring || (exit.Known && exit.Signal == "" && exit.Code == expiredCode)
	silent := l.destroying
	h.mu.Unlock()
	killed := !exit.Known || exit.Signal == "SIGKILL"
	exit.OOMKilled = killed && !exit.Expired && !silent && h.cgroups.Usage(l.id).OOMKills > 0
	if !silent {
		if err := h.saveExit(l.id, exit); err != nil {
			h.log.Printf("%s: exit.json: %v", l.id, err)
		}
		h.log.Printf("%s: ended: %+v", l.id, exit)
		h.events.publish(map[string]any{"event": "sandbox.exited", "id": l.id, "oomKilled": exit.OOMKilled, "expired": exit.Expired})
	}
	close(l.done)
}

// kill ends the sandbox's first process, and with it the pid namespace: the kernel kills the rest.
func (l *live) kill() error {
	raw, err := l.pidfd.SyscallConn()
	if err != nil {
		return nil
	}
	var failure error
	raw.Control(func(fd uintptr) {
		failure = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0)
	})
	if failure == unix.ESRCH {
		return nil
	}
	return failure
}

// tick ends sandboxes whose time is up. It compares wall clocks each time, so a clock that jumps is noticed within a second.
func (h *Host) tick(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.live {
		if l.deadlineMs == 0 || l.destroying || now.UnixMilli() < l.deadlineMs+grace.Milliseconds() {
			continue
		}
		l.expiring = true
		if err := l.kill(); err != nil {
			h.log.Printf("%s: expire: %v", l.id, err)
		}
	}
}
