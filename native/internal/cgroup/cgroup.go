// Package cgroup makes the control groups of sandboxes: cgroup v1 (and hybrid hosts), v2, or none.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Headroom is how many more processes a sandbox's own group allows than its payload's group, so that podd
// keeps working while the payload is at its limit (case RS-01).
const Headroom = 64

// Limits are the limits to enforce; zero means no limit.
type Limits struct {
	MemoryBytes int64
	SwapBytes   int64
	CPUs        float64
	Pids        int64
	// Delegated: programs inside make groups of their own, so there is none for the payload. Only on v2.
	Delegated bool
}

// Level says whether a limit is enforced.
type Level struct {
	Level  string `json:"level"`
	Reason string `json:"reason,omitempty"`
}

var Enforced = Level{Level: "enforced"}

// NotAsked is the level of a limit that was not requested.
var NotAsked = Level{Level: "none", Reason: "not requested"}

// None is the level of a limit that is not enforced, with the reason.
func None(format string, args ...any) Level {
	return Level{Level: "none", Reason: fmt.Sprintf(format, args...)}
}

// Usage is what a sandbox's groups have counted.
type Usage struct {
	CPUMs    int64 `json:"cpuMs"`
	MemBytes int64 `json:"memBytes"`
	MemPeak  int64 `json:"memPeakBytes"`
	MemLimit int64 `json:"memLimitBytes"`
	Pids     int64 `json:"pids"`
	PidLimit int64 `json:"pidsLimit"`
	OOMKills int64 `json:"oomKills"`
}

// A Group is one sandbox's group in the hierarchy.
type Group struct {
	// Tasks are the v1 files by which a thread joins the groups.
	Tasks []string
	// Procs is the v2 file by which a process joins the group; nil on v1.
	Procs *os.File
	// Payload is for podd to move its payload's launcher threads. OOM is for podd to watch. They are nil if
	// the controller is missing.
	Payload, OOM *os.File
	Levels       map[string]Level
}

// Start runs start, which starts a process, on a thread in the v1 groups, so that the process begins there.
// The kernel moves a single thread at once; before it moves a process, it waits for every processor. The
// thread has ended when Start returns: freezing the group would otherwise freeze it, and with it the whole
// program as soon as Go has to wait for all threads.
func (g *Group) Start(start func() error) error {
	result, thread := make(chan error, 1), 0
	go func() {
		// The thread ends with its goroutine, since it is not unlocked.
		runtime.LockOSThread()
		thread = unix.Gettid()
		result <- g.startHere(start)
	}()
	err := <-result
	for unix.Tgkill(unix.Getpid(), thread, 0) == nil {
		time.Sleep(20 * time.Microsecond)
	}
	return err
}

func (g *Group) startHere(start func() error) error {
	for _, path := range g.Tasks {
		if err := os.WriteFile(path, []byte("0"), 0); err != nil {
			return fmt.Errorf("enter a group: %w", err)
		}
	}
	return start()
}

// Close closes the descriptors; the groups stay.
func (g *Group) Close() {
	for _, f := range []*os.File{g.Procs, g.Payload, g.OOM} {
		if f != nil {
			f.Close()
		}
	}
}

// A Manager makes and removes groups. Every method takes a sandbox's id and keeps no state about it.
type Manager interface {
	// Version is "v1", "v2" or "none".
	Version() string
	Controllers() []string
	// Create makes the group and sets its limits. Levels says which limits could not be set.
	Create(id string, limits Limits) (*Group, error)
	// Limit sets the limits of an existing group, and returns which of them are enforced.
	Limit(id string, limits Limits) map[string]Level
	Usage(id string) Usage
	// Freezes reports whether Freeze can work here.
	Freezes() bool
	// Freeze returns when no process of the group runs any more. After an error all of them run.
	Freeze(id string) error
	// Thaw lets the processes run again. It may be called at any time.
	Thaw(id string) error
	// Kill sends SIGKILL to every process in the group, frozen ones included.
	Kill(id string)
	// Remove removes the group. It waits for processes that are about to end.
	Remove(id string) error
	// IDs lists the sandboxes that have a group.
	IDs() []string
	// Close removes the groups above those of the sandboxes if they are empty.
	Close()
}

// Detect finds what this host offers. scope separates several state directories on one host.
func Detect(scope string) Manager {
	mounts := readMounts()
	if m, err := newV1(mounts, scope); err == nil {
		return m
	}
	m, err := newV2(mounts, scope)
	if err == nil {
		return m
	}
	return none{reason: err.Error()}
}

// DetectDelegated finds what an ordinary user has. missing is the reason why podhost got no group, if it got
// none. The file records where the groups are, because the next podhost starts in another group.
func DetectDelegated(scope, file, missing string) Manager {
	m, err := newDelegatedV2(readMounts(), scope, file)
	switch {
	case err == nil:
		return m
	case missing != "":
		return none{reason: missing}
	default:
		return none{reason: err.Error()}
	}
}

// readMounts maps a v1 controller's name, or "" for v2, to the mount point of its hierarchy.
func readMounts() map[string]string {
	mounts := map[string]string{}
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(data), "\n") {
		before, after, found := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		// Only a mount of the hierarchy's root is usable: below a bind mount of one group the names mean
		// something else.
		if !found || len(fields) < 5 || len(tail) < 3 || fields[3] != "/" {
			continue
		}
		switch tail[0] {
		case "cgroup2":
			mounts[""] = fields[4]
		case "cgroup":
			for _, option := range strings.Split(tail[2], ",") {
				mounts[option] = fields[4]
			}
		}
	}
	return mounts
}

func write(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}

func readInt(dir, file string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	// "max", and its v1 equivalent, mean no limit.
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || n > 1<<60 {
		return 0
	}
	return n
}

// readField finds "name value" in a flat keyed file.
func readField(dir, file, name string) int64 {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	for _, line := range strings.Split(string(data), "\n") {
		if key, value, _ := strings.Cut(line, " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

func killAll(dir string) {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// removeDir removes one empty group. It retries, because a process that has ended leaves its group a moment
// later.
func removeDir(dir string) error {
	deadline := time.Now().Add(5 * time.Second)
	for wait := 200 * time.Microsecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		if wait > 50*time.Millisecond {
			killAll(dir)
			wait = 50 * time.Millisecond
		}
		time.Sleep(wait)
	}
}

func subdirs(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}
