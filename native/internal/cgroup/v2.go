package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// v2 keeps one directory per sandbox: <root>/agentpod/<scope>/<id>. podd runs in it, and its payload's
// launcher threads run in the threaded child "payload". So processes are counted apart, and memory is charged
// to one group.
type v2 struct {
	dir         string
	controllers []string
	freezes     bool
}

var v2Controllers = []string{"memory", "cpu", "pids"}

var errNoV2 = errors.New("no cgroup v2 hierarchy with the memory and pids controllers can be written")

func newV2(mounts map[string]string, scope string) (*v2, error) {
	root, there := mounts[""]
	if !there {
		return nil, errNoV2
	}
	return makeV2(root, []string{"agentpod", scope})
}

// newDelegatedV2 works below a group that a service manager gave to this user: the one with the sandboxes of
// an earlier podhost, or podhost's own. INVARIANT: podhost is in that group, which therefore exists as long
// as podhost runs.
func newDelegatedV2(mounts map[string]string, scope, file string) (*v2, error) {
	root, there := mounts[""]
	if !there {
		return nil, errors.New("an ordinary user needs cgroup v2")
	}
	levels := []string{"agentpod", scope}
	if earlier, err := os.ReadFile(file); err == nil {
		base := string(earlier)
		if _, err := os.Stat(filepath.Join(append([]string{base}, levels...)...)); err == nil {
			if m, err := moveInto(base, levels); err == nil {
				return m, nil
			}
		}
	}
	own := ownGroup()
	if own == "" {
		return nil, errNoV2
	}
	base := filepath.Join(root, own)
	m, err := moveInto(base, levels)
	if err != nil {
		return nil, fmt.Errorf("%s is not delegated to this user: %w", own, err)
	}
	if err := os.WriteFile(file, []byte(base), 0o600); err != nil {
		return nil, err
	}
	return m, nil
}

// moveInto moves podhost into a leaf, because a group with processes of its own cannot give controllers to
// its children.
func moveInto(base string, levels []string) (*v2, error) {
	leaf := filepath.Join(base, "podhost")
	if err := os.Mkdir(leaf, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	if err := write(leaf, "cgroup.procs", "0"); err != nil {
		os.Remove(leaf)
		return nil, err
	}
	if isBoundary(base) {
		moveAll(base, leaf)
	}
	m, err := makeV2(base, levels)
	if err != nil {
		moveAll(leaf, base)
		os.Remove(leaf)
		return nil, err
	}
	return m, nil
}

// isBoundary reports whether a group was given to this user as a whole: a scope that we asked for, or a group
// below another user's. Other processes in it, such as the one that started podhost, may be moved within it.
// Any other group of the user, such as a terminal's, stays as it is.
func isBoundary(group string) bool {
	if strings.HasPrefix(filepath.Base(group), scopePrefix) {
		return true
	}
	above, err := os.Stat(filepath.Dir(group))
	if err != nil {
		return false
	}
	stat, known := above.Sys().(*syscall.Stat_t)
	return known && int(stat.Uid) != os.Geteuid()
}

// moveAll moves the processes of one group to another. It ignores processes that end meanwhile. If a process
// cannot be moved, giving controllers to the children fails later.
func moveAll(from, to string) {
	data, _ := os.ReadFile(filepath.Join(from, "cgroup.procs"))
	for _, pid := range strings.Fields(string(data)) {
		write(to, "cgroup.procs", pid)
	}
}

// makeV2 enables the controllers from root through each of the levels.
func makeV2(root string, levels []string) (*v2, error) {
	m := &v2{dir: root}
	data, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	available := strings.Fields(string(data))
	for _, controller := range v2Controllers {
		for _, name := range available {
			if name == controller {
				m.controllers = append(m.controllers, name)
			}
		}
	}
	if len(m.controllers) == 0 {
		return nil, errNoV2
	}
	for _, level := range levels {
		for _, controller := range m.controllers {
			if err := write(m.dir, "cgroup.subtree_control", "+"+controller); err != nil {
				return nil, err
			}
		}
		m.dir = filepath.Join(m.dir, level)
		if err := os.Mkdir(m.dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	for _, controller := range m.controllers {
		if err := write(m.dir, "cgroup.subtree_control", "+"+controller); err != nil {
			return nil, err
		}
	}
	if m.has("pids") {
		limitAllProcesses(filepath.Join(root, levels[0]))
	}
	_, err = os.Stat(filepath.Join(m.dir, "cgroup.freeze"))
	m.freezes = err == nil
	return m, nil
}

func (m *v2) Version() string { return "v2" }

func (m *v2) Controllers() []string { return m.controllers }

func (m *v2) has(controller string) bool {
	for _, name := range m.controllers {
		if name == controller {
			return true
		}
	}
	return false
}

func (m *v2) Create(id string, limits Limits) (group *Group, err error) {
	dir := filepath.Join(m.dir, id)
	group = &Group{Levels: map[string]Level{}}
	defer func() {
		if err != nil {
			group.Close()
			m.Remove(id)
		}
	}()
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return group, err
	}
	if group.Procs, err = os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0); err != nil {
		return group, err
	}
	if m.has("memory") {
		group.OOM, _ = os.Open(filepath.Join(dir, "memory.events"))
	}
	if m.has("pids") && !limits.Delegated {
		if err := m.makePayload(dir, group); err != nil {
			return group, err
		}
	}
	group.Levels = m.Limit(id, limits)
	return group, nil
}

func (m *v2) Limit(id string, limits Limits) map[string]Level {
	dir, levels := filepath.Join(m.dir, id), map[string]Level{}
	limit := func(name, controller string, asked bool, file, value string) {
		switch {
		case !asked:
			levels[name] = NotAsked
		case !m.has(controller):
			levels[name] = None("no %s controller", controller)
		default:
			levels[name] = levelOf(write(dir, file, value))
		}
	}
	memory := limits.MemoryBytes > 0
	limit("memory", "memory", memory, "memory.max", strconv.FormatInt(limits.MemoryBytes, 10))
	limit("swap", "memory", memory, "memory.swap.max", strconv.FormatInt(limits.SwapBytes, 10))
	period, quota := cpuQuota(limits.CPUs)
	limit("cpus", "cpu", limits.CPUs > 0, "cpu.max", fmt.Sprintf("%d %d", quota, period))
	limit("pids", "pids", limits.Pids > 0, "pids.max", strconv.FormatInt(limits.Pids+Headroom, 10))
	if limits.Pids > 0 && !limits.Delegated && m.has("pids") && levels["pids"] == Enforced {
		levels["pids"] = levelOf(write(filepath.Join(dir, "payload"), "pids.max", strconv.FormatInt(limits.Pids, 10)))
	}
	return levels
}

// makePayload makes the threaded child. The order matters: the child's type turns its parent into a threaded
// domain, and only then may the parent, which is about to hold podd, enable the pids controller for it.
func (m *v2) makePayload(dir string, group *Group) error {
	payload := filepath.Join(dir, "payload")
	if err := os.Mkdir(payload, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	if err := write(payload, "cgroup.type", "threaded"); err != nil {
		return err
	}
	if err := write(dir, "cgroup.subtree_control", "+pids"); err != nil {
		return err
	}
	var err error
	group.Payload, err = os.OpenFile(filepath.Join(payload, "cgroup.threads"), os.O_WRONLY, 0)
	return err
}

func (m *v2) Usage(id string) Usage {
	dir := filepath.Join(m.dir, id)
	return Usage{
		CPUMs:    readField(dir, "cpu.stat", "usage_usec") / 1e3,
		MemBytes: readInt(dir, "memory.current"),
		MemPeak:  readInt(dir, "memory.peak"),
		MemLimit: readInt(dir, "memory.max"),
		Pids:     readInt(dir, "pids.current"),
		PidLimit: readInt(filepath.Join(dir, "payload"), "pids.max"),
		OOMKills: readField(dir, "memory.events", "oom_kill"),
	}
}

func (m *v2) Kill(id string) {
	dir := filepath.Join(m.dir, id)
	if write(dir, "cgroup.kill", "1") != nil {
		killAll(dir)
	}
}

func (m *v2) Remove(id string) error {
	err := removeDir(filepath.Join(m.dir, id, "payload"))
	if own := removeDir(filepath.Join(m.dir, id)); err == nil {
		err = own
	}
	return err
}

func (m *v2) IDs() []string { return subdirs(m.dir) }

func (m *v2) Close() {
	os.Remove(m.dir)
	os.Remove(filepath.Dir(m.dir))
}
