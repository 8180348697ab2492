package host

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

// expiredCode is podd's exit code when a lease has run out.
const expiredCode = 79

// grace is how long after its deadline a sandbox ends from here; podd, which knows the same deadline, should be first.
const grace = 2 * time.Second

// live is a sandbox whose first process runs.
type live struct {
	id, group string
	// log is where podd writes.
	log   string
	pidfd *os.File
	// Guarded by Host.mu.
	deadlineMs int64
	whenOver   string
	paused     bool
	expiring   bool
	destroying bool
	// settling: a goroutine is on its way to pause or stop it.
	settling bool
	// done is closed when the process is gone and exit.json written.
	done chan struct{}
}

// adopt watches the sandbox's first process if it still is the one that was written down; otherwise it returns nil.
func (h *Host) adopt(handle *Handle) (*live, error) {
	fd, err := unix.PidfdOpen(handle.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		if err == unix.ESRCH || handle.Pid == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	// The descriptor pins whatever process has the pid now; its start time tells whether that is ours.
	if handle.StartTime == 0 || startTime(handle.Pid) != handle.StartTime {
		unix.Close(fd)
		return nil, nil
	}
	l := &live{id: handle.ID, group: handle.group(), log: filepath.Join(h.runDir(handle), "podd.log"), pidfd: os.NewFile(uintptr(fd), "pidfd"), deadlineMs: handle.DeadlineMs,
		whenOver: handle.WhenOver, paused: handle.State == statePaused, done: make(chan struct{})}
	h.mu.Lock()
	h.live[l.id] = l
	h.mu.Unlock()
	h.task(func() { h.watch(l) })
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
		if !hasEnded(int(fd)) {
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

// hasEnded asks the kernel without waiting.
func hasEnded(pidfd int) bool { return waitEnded(pidfd, 0) }

// waitEnded reports whether the process has ended within the limit. A signal cuts a poll short, even one that does not wait, and podhost
// gets one for every child that ends; that says nothing about this process.
func waitEnded(pidfd int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		left := time.Until(deadline)
		if left < 0 {
			left = 0
		}
		n, err := unix.Poll(poll, int(left.Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
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
	defer close(l.done)
	if silent {
		return
	}
	killed := !exit.Known || exit.Signal == "SIGKILL"
	exit.OOMKilled = killed && !exit.Expired && h.cgroups.Usage(l.group).OOMKills > 0
	if err := h.saveExit(l.id, exit); err != nil {
		h.log.Printf("%s: exit.json: %v", l.id, err)
	}
	h.log.Printf("%s: ended: %+v", l.id, exit)
	if exit.Expired && l.whenOver == hostproto.OverStop {
		// podd was first: what it left is stopped, and said to have ended when it is.
		h.task(func() { h.stopExpired(l.id) })
		return
	}
	h.announceExit(l.id, exit.OOMKilled, exit.Expired)
}

func (h *Host) announceExit(id string, oomKilled, expired bool) {
	h.events.publish(map[string]any{"event": "sandbox.exited", "id": id, "oomKilled": oomKilled, "expired": expired})
}

// task runs work that nobody waits for but close.
func (h *Host) task(work func()) {
	h.tasks.Add(1)
	go func() {
		defer h.tasks.Done()
		work()
	}()
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

// tick deals with sandboxes whose time is up. It compares wall clocks each time, so a clock that jumps is noticed within a second.
func (h *Host) tick(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.live {
		if l.deadlineMs == 0 || l.destroying || l.paused || l.settling || now.UnixMilli() < l.deadlineMs+grace.Milliseconds() {
			continue
		}
		if l.whenOver == hostproto.OverPause || l.whenOver == hostproto.OverStop {
			l.settling = true
			id := l.id
			h.task(func() { h.expire(id) })
			continue
		}
		l.expire(h)
	}
}

// expire kills; h.mu is held.
func (l *live) expire(h *Host) {
	l.expiring = true
	if err := l.kill(); err != nil {
		h.log.Printf("%s: expire: %v", l.id, err)
	}
}

// expire pauses or stops a sandbox whose time is up, and kills it where that fails.
func (h *Host) expire(id string) {
	defer h.locks.lock("sandbox " + id)()
	h.mu.Lock()
	l := h.live[id]
	over := l != nil && !l.paused && l.deadlineMs > 0 && time.Now().UnixMilli() >= l.deadlineMs+grace.Milliseconds()
	if l != nil {
		l.settling = false
	}
	h.mu.Unlock()
	if !over {
		return
	}
	var err error
	if l.whenOver == hostproto.OverPause {
		if _, err = h.pause(id); err == nil {
			h.events.publish(map[string]any{"event": "sandbox.paused", "id": id})
		}
	} else if err = h.stopNow(id, true); err == nil {
		h.announceExit(id, false, true)
	}
	if err != nil {
		h.log.Printf("%s: its time is up: %v: it is killed", id, err)
		h.mu.Lock()
		defer h.mu.Unlock()
		if !l.destroying {
			l.expire(h)
		}
	}
}

// stopExpired stops a sandbox that podd has ended because its time was up.
func (h *Host) stopExpired(id string) {
	defer h.locks.lock("sandbox " + id)()
	if _, ended := h.loadExit(id); !ended {
		return
	}
	if err := h.stopNow(id, true); err != nil {
		h.log.Printf("%s: stop: %v", id, err)
	}
	h.announceExit(id, false, true)
}
