package lifecycle

import (
	"fmt"
	"os"
	"time"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

// expiredCode is podd's exit code when its lease has expired.
const expiredCode = 79

// killedCode is the exit code of a supervisor when the sandbox was killed.
const killedCode = 128 + int(unix.SIGKILL)

// live is a sandbox whose first process runs.
type live struct {
	id, group string
	runtime   boot.Runtime
	// log is the file that podd writes to.
	log   string
	pidfd *os.File
	// Guarded by Sandboxes.mu.
	deadlineMs int64
	whenOver   string
	paused     bool
	// expired: podhost killed it because of its deadline.
	expired    bool
	destroying bool
	// expiring: a goroutine is about to pause or stop it because of its deadline.
	expiring bool
	// done is closed when the process has ended and exit.json is written.
	done chan struct{}
}

// adopt watches the sandbox's first process. It returns nil if the process with the recorded pid is another
// one.
func (s *Sandboxes) adopt(handle *Handle) (*live, error) {
	fd, err := unix.PidfdOpen(handle.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		if err == unix.ESRCH || handle.Pid == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	// The descriptor refers to the process that has the pid now. Its start time tells whether that is podd.
	if handle.StartTime == 0 || processes.StartTime(handle.Pid) != handle.StartTime {
		unix.Close(fd)
		return nil, nil
	}
	l := &live{id: handle.ID, group: handle.group(), runtime: handle.Runtime, log: s.runOf(handle).Log, pidfd: os.NewFile(uintptr(fd), "pidfd"),
		deadlineMs: handle.DeadlineMs, whenOver: handle.WhenOver, paused: handle.State == statePaused, done: make(chan struct{})}
	s.mu.Lock()
	s.live[l.id] = l
	s.mu.Unlock()
	s.task(func() { s.watch(l) })
	return l, nil
}

// watch waits without occupying a thread: a pidfd becomes readable when its process ends.
func (s *Sandboxes) watch(l *live) {
	defer l.pidfd.Close()
	raw, err := l.pidfd.SyscallConn()
	if err != nil {
		s.Log.Printf("%s: watch: %v", l.id, err)
		return
	}
	exit := Exit{}
	err = raw.Read(func(fd uintptr) bool {
		if !processes.HasEnded(int(fd)) {
			return false
		}
		status := processes.Collect(int(fd))
		exit = Exit{Known: status.Known, Code: status.Code, Signal: status.Signal, AtMs: time.Now().UnixMilli()}
		return true
	})
	if err != nil {
		// Close has closed the descriptor: podhost stops, and the sandbox keeps running.
		return
	}
	s.ended(l, exit)
}

func (s *Sandboxes) ended(l *live, exit Exit) {
	s.mu.Lock()
	delete(s.live, l.id)
	exit.Expired = l.expired || (exit.Known && exit.Signal == "" && exit.Code == expiredCode)
	isDestroyed := l.destroying
	s.mu.Unlock()
	defer close(l.done)
	if isDestroyed {
		return
	}
	isKilled := !exit.Known || exit.Signal == "SIGKILL" || l.runtime != boot.Container && exit.Code == killedCode
	exit.OOMKilled = isKilled && !exit.Expired && s.Launcher.Cgroups.Usage(l.group).OOMKills > 0
	if err := s.saveExit(l.id, exit); err != nil {
		s.Log.Printf("%s: exit.json: %v", l.id, err)
	}
	s.Log.Printf("%s: ended: %+v", l.id, exit)
	if exit.Expired && l.whenOver == hostproto.OverStop {
		// podd ended before podhost stopped the sandbox. The event follows when the rest is stopped.
		s.task(func() { s.stopExpired(l.id) })
		return
	}
	s.announceExit(l.id, exit.OOMKilled, exit.Expired)
}

func (s *Sandboxes) announceExit(id string, oomKilled, expired bool) {
	s.Publish(map[string]any{"event": "sandbox.exited", "id": id, "oomKilled": oomKilled, "expired": expired})
}

// kill ends the sandbox's first process and with it the pid namespace, so the kernel kills the rest.
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
