// Package processes identifies, awaits and collects the processes that podhost starts or inherits.
package processes

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// StartTime distinguishes a process from a later one with the same pid. It is 0 if there is no such process.
func StartTime(pid int) uint64 { return number(stat(pid), startTime) }

// Fields of /proc/PID/stat, counted from the one after the name.
const (
	flags          = 6
	startTime      = 19
	pendingSignals = 28
	// exitCode is that of a process that has been killed, from that moment on. Linux before 5.17 says it later.
	exitCode = 49
	// exiting is a flag of a process whose first thread is ending.
	exiting = 4
)

// stat returns the fields of /proc/PID/stat that follow the name, or nothing if the process has ended.
func stat(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The name in parentheses may contain any character, so the fields are counted from the last parenthesis.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) <= pendingSignals || fields[0] == "Z" || fields[0] == "X" {
		return nil
	}
	return fields
}

func number(fields []string, at int) uint64 {
	if len(fields) <= at {
		return 0
	}
	value, _ := strconv.ParseUint(fields[at], 10, 64)
	return value
}

// IsAlive reports whether the process with this pid and start time runs, and is not about to end: it may have
// been killed and have yet to notice it.
func IsAlive(pid int, started uint64) bool {
	fields := stat(pid)
	isKilled := number(fields, exitCode) != 0 || number(fields, pendingSignals)&(1<<(unix.SIGKILL-1)) != 0
	return number(fields, startTime) == started && number(fields, flags)&exiting == 0 && !isKilled
}

// HasEnded asks the kernel without waiting.
func HasEnded(pidfd int) bool { return WaitEnded(pidfd, 0) }

// WaitEnded reports whether the process ends within the limit. A signal interrupts a poll, even one that does
// not wait, and podhost gets a signal for every child that ends. An interrupted poll is therefore repeated.
func WaitEnded(pidfd int, limit time.Duration) bool {
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

// A Status is how a process ended: by an exit code, or by a signal. Known is false if no status could be
// collected.
type Status struct {
	Known  bool
	Code   int
	Signal string
}

// Collect reaps a process that has ended. The status of a process that an earlier podhost started is not
// known, because init reaps it.
func Collect(pidfd int) Status {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG, nil); err != nil || info.Signo == 0 {
		return Status{}
	}
	status := int(childInfoOf(&info).status)
	if info.Code == cldExited {
		return Status{Known: true, Code: status}
	}
	return Status{Known: true, Signal: unix.SignalName(unix.Signal(status))}
}
