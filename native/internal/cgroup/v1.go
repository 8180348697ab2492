package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// v1 keeps one directory per sandbox in each hierarchy: <mount>/agentpod/<scope>/<id>.
type v1 struct {
	scope string
	// dirs maps a controller to <mount>/agentpod/<scope>.
	dirs map[string]string
}

// v1Controllers, in the order in which they are written. cpuacct counts, freezer is for pausing, and devices
// blocks devices, which mknod could not open anyway.
var v1Controllers = []string{"memory", "cpu", "pids", "cpuacct", "freezer", "devices"}

// v1Devices are null, zero, full, random, urandom, tty and the pseudo-terminals.
var v1Devices = []string{"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm"}

func newV1(mounts map[string]string, scope string) (*v1, error) {
	m := &v1{scope: scope, dirs: map[string]string{}}
	for _, controller := range v1Controllers {
		mount, there := mounts[controller]
		if !there {
			continue
		}
		dir := filepath.Join(mount, "agentpod", scope)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			continue
		}
		m.dirs[controller] = dir
	}
	if m.dirs["memory"] == "" && m.dirs["pids"] == "" {
		return nil, errors.New("no cgroup v1 hierarchy can be written")
	}
	if dir, there := m.dirs["memory"]; there {
		limitAllSocketBuffers(filepath.Dir(dir))
	}
	if dir, there := m.dirs["pids"]; there {
		limitAllProcesses(filepath.Dir(dir))
	}
	if dir, there := m.dirs["devices"]; there {
		// Every sandbox's group inherits this list. A group with children refuses the change; it has the list
		// already.
		if write(dir, "devices.deny", "a") == nil {
			for _, device := range v1Devices {
				write(dir, "devices.allow", device)
			}
		}
	}
	return m, nil
}

func (m *v1) Version() string { return "v1" }

func (m *v1) Controllers() []string {
	var names []string
	for _, controller := range v1Controllers {
		if _, there := m.dirs[controller]; there {
			names = append(names, controller)
		}
	}
	return names
}

func (m *v1) Create(id string, limits Limits) (group *Group, err error) {
	group = &Group{Levels: map[string]Level{}}
	defer func() {
		if err != nil {
			group.Close()
			m.Remove(id)
		}
	}()
	// Controllers mounted together share one hierarchy, and so one directory.
	made := map[string]bool{}
	for _, controller := range m.Controllers() {
		dir := filepath.Join(m.dirs[controller], id)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return group, err
		}
		if !made[dir] {
			group.Tasks = append(group.Tasks, filepath.Join(dir, "tasks"))
		}
		made[dir] = true
	}
	if group.Payload, err = m.payload(id); err != nil {
		return group, err
	}
	group.Levels = m.Limit(id, limits)
	if dir, there := m.dirs["memory"]; there {
		group.OOM, _ = os.Open(filepath.Join(dir, id, "memory.oom_control"))
	}
	return group, nil
}

func (m *v1) Limit(id string, limits Limits) map[string]Level {
	levels := map[string]Level{}
	m.limitMemory(id, limits, levels)
	m.limitCPU(id, limits, levels)
	m.limitPids(id, limits, levels)
	return levels
}

func (m *v1) limitMemory(id string, limits Limits, levels map[string]Level) {
	root, there := m.dirs["memory"]
	dir := filepath.Join(root, id)
	switch {
	case limits.MemoryBytes == 0:
		levels["memory"] = NotAsked
	case !there:
		levels["memory"] = None("no memory controller")
	default:
		levels["memory"] = levelOf(write(dir, "memory.limit_in_bytes", strconv.FormatInt(limits.MemoryBytes, 10)))
		if err := limitSocketBuffers(dir, limits.MemoryBytes); err != nil && levels["memory"] == Enforced {
			levels["memory"] = Level{Level: Enforced.Level, Reason: "buffers of TCP and UDP sockets are not counted: " + err.Error()}
		}
	}
	switch {
	case limits.MemoryBytes == 0:
		levels["swap"] = NotAsked
	case !there:
		levels["swap"] = None("no memory controller")
	default:
		// Memory and swap share one limit here, so "no swap" is a limit too.
		levels["swap"] = levelOf(write(dir, "memory.memsw.limit_in_bytes", strconv.FormatInt(limits.MemoryBytes+limits.SwapBytes, 10)))
	}
}

func (m *v1) limitCPU(id string, limits Limits, levels map[string]Level) {
	root, there := m.dirs["cpu"]
	switch {
	case limits.CPUs == 0:
		levels["cpus"] = NotAsked
	case !there:
		levels["cpus"] = None("no cpu controller")
	default:
		period, quota := cpuQuota(limits.CPUs)
		dir := filepath.Join(root, id)
		err := write(dir, "cpu.cfs_period_us", strconv.Itoa(period))
		if err == nil {
			err = write(dir, "cpu.cfs_quota_us", strconv.Itoa(quota))
		}
		levels["cpus"] = levelOf(err)
	}
}

func (m *v1) limitPids(id string, limits Limits, levels map[string]Level) {
	root, there := m.dirs["pids"]
	switch {
	case !there:
		levels["pids"] = None("no pids controller")
	case limits.Pids == 0:
		levels["pids"] = NotAsked
	default:
		dir := filepath.Join(root, id)
		err := write(filepath.Join(dir, "payload"), "pids.max", strconv.FormatInt(limits.Pids, 10))
		if err == nil {
			err = write(dir, "pids.max", strconv.FormatInt(limits.Pids+Headroom, 10))
		}
		levels["pids"] = levelOf(err)
	}
}

// payload makes the child group that counts podd's payload; it returns nil without a pids controller.
func (m *v1) payload(id string) (*os.File, error) {
	root, there := m.dirs["pids"]
	if !there {
		return nil, nil
	}
	payload := filepath.Join(root, id, "payload")
	if err := os.Mkdir(payload, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	return os.OpenFile(filepath.Join(payload, "tasks"), os.O_WRONLY, 0)
}

func (m *v1) Usage(id string) Usage {
	var u Usage
	if dir, there := m.dirs["cpuacct"]; there {
		u.CPUMs = readInt(filepath.Join(dir, id), "cpuacct.usage") / 1e6
	}
	if dir, there := m.dirs["memory"]; there {
		dir = filepath.Join(dir, id)
		u.MemBytes = readInt(dir, "memory.usage_in_bytes")
		u.MemPeak = readInt(dir, "memory.max_usage_in_bytes")
		u.MemLimit = readInt(dir, "memory.limit_in_bytes")
		u.OOMKills = readField(dir, "memory.oom_control", "oom_kill")
	}
	if dir, there := m.dirs["pids"]; there {
		dir = filepath.Join(dir, id)
		u.Pids = readInt(dir, "pids.current")
		u.PidLimit = readInt(filepath.Join(dir, "payload"), "pids.max")
	}
	return u
}

func (m *v1) Kill(id string) {
	for _, root := range m.dirs {
		killAll(filepath.Join(root, id))
		killAll(filepath.Join(root, id, "payload"))
	}
	// A frozen process receives its signal when it is thawed.
	m.Thaw(id)
}

func (m *v1) Remove(id string) error {
	var first error
	for _, root := range m.dirs {
		for _, dir := range []string{filepath.Join(root, id, "payload"), filepath.Join(root, id)} {
			if err := removeDir(dir); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

func (m *v1) IDs() []string {
	seen := map[string]bool{}
	var ids []string
	for _, root := range m.dirs {
		for _, name := range subdirs(root) {
			if !seen[name] {
				ids = append(ids, name)
			}
			seen[name] = true
		}
	}
	return ids
}

func (m *v1) Close() {
	for _, dir := range m.dirs {
		os.Remove(dir)
		os.Remove(filepath.Dir(dir))
	}
}

func levelOf(err error) Level {
	if err == nil {
		return Enforced
	}
	return None("%v", errors.Unwrap(err))
}

// cpuQuota converts a number of processors to the scheduler's period and quota. The kernel refuses a quota
// under a millisecond.
func cpuQuota(cpus float64) (period, quota int) {
	period = 100000
	quota = int(cpus * float64(period))
	if quota < 1000 {
		quota = 1000
	}
	return period, quota
}
