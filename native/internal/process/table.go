package process

import (
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

const (
	rememberFor  = 10 * time.Minute
	rememberMost = 256
	aliveMost    = 4096
	tidyEvery    = time.Minute
	// tidySlack more are dropped than necessary, so that a busy sandbox does not sort on every start.
	tidySlack = 16
)

// Table holds the processes that podd started: the running ones, and the ended ones that it remembers.
type Table struct {
	Reaper    *Reaper
	Launchers Launchers
	OOM       *OOMCounter
	SpillDirs []string

	mu     sync.Mutex
	byPid  map[int]*Process
	byTag  map[string]*Process
	tidied time.Time
}

// Selector is envd's ProcessSelector.
type Selector struct {
	Pid int    `json:"pid,omitempty"`
	Tag string `json:"tag,omitempty"`
}

// Start runs a payload and returns it with a reader at the beginning of its output.
func (t *Table) Start(request Request) (*Process, *Reader, error) {
	if err := t.reserve(request.Tag); err != nil {
		return nil, nil, err
	}
	p, reader, err := t.start(request)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if request.Tag != "" {
			delete(t.byTag, request.Tag)
		}
		return nil, nil, err
	}
	// The kernel may reuse a pid once its process is reaped; then it belongs to the new process.
	if old := t.byPid[p.Pid]; old != nil {
		t.forget(old)
	}
	t.byPid[p.Pid] = p
	if p.Tag != "" {
		t.byTag[p.Tag] = p
	}
	return p, reader, nil
}

// reserve claims a tag, so that only one of two starts with the same tag succeeds.
func (t *Table) reserve(tag string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byPid == nil {
		t.byPid, t.byTag = map[int]*Process{}, map[string]*Process{}
	}
	t.tidy()
	if len(t.byPid) >= aliveMost+rememberMost {
		return connect.Errorf(connect.ResourceExhausted, "more than %d processes are running", aliveMost)
	}
	if tag == "" {
		return nil
	}
	if _, taken := t.byTag[tag]; taken {
		return connect.Errorf(connect.AlreadyExists, "a process with tag %.64q exists", tag)
	}
	t.byTag[tag] = nil
	return nil
}

// tidy drops ended processes that are too old, and the oldest if there are too many. It only looks if there
// can be something to drop.
func (t *Table) tidy() {
	if len(t.byPid) < rememberMost && time.Since(t.tidied) < tidyEvery {
		return
	}
	t.tidied = time.Now()
	var ended []*Process
	for _, p := range t.byPid {
		if p.Exit() != nil {
			ended = append(ended, p)
		}
	}
	sort.Slice(ended, func(a, b int) bool { return ended[a].Exit().At.Before(ended[b].Exit().At) })
	for i, p := range ended {
		if len(ended)-i <= rememberMost-tidySlack && time.Since(p.Exit().At) < rememberFor {
			break
		}
		t.forget(p)
	}
}

// ForgetAll kills every process and forgets it.
func (t *Table) ForgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byPid {
		if p.Exit() == nil {
			p.Signal(unix.SIGKILL)
		}
		t.forget(p)
	}
}

func (t *Table) forget(p *Process) {
	delete(t.byPid, p.Pid)
	if p.Tag != "" && t.byTag[p.Tag] == p {
		delete(t.byTag, p.Tag)
	}
	p.Output.Discard()
}

// Find looks a process up, ended ones included.
func (t *Table) Find(selector Selector) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byPid[selector.Pid]
	if selector.Tag != "" {
		p = t.byTag[selector.Tag]
	}
	if p == nil {
		return nil, connect.Errorf(connect.NotFound, "process with pid %d, tag %.64q not found", selector.Pid, selector.Tag)
	}
	return p, nil
}

// All lists the processes by the time they started.
func (t *Table) All() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Process, 0, len(t.byPid))
	for _, p := range t.byPid {
		all = append(all, p)
	}
	sort.Slice(all, func(a, b int) bool { return all[a].Started.Before(all[b].Started) })
	return all
}

// KillAll ends every process. podd ends next, and with it any process that this did not find.
func (t *Table) KillAll() {
	for _, p := range t.All() {
		p.Signal(unix.SIGKILL)
	}
}
