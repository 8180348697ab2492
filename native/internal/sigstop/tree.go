package sigstop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A process is one as /proc shows it. The start time tells it from another that gets its pid later.
type process struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start"`
	parent int
	state  byte
}

// descendants lists the process pid and all below it, parents before their children. Whatever runs in a pid namespace descends from its
// first process.
func descendants(pid int) []process {
	children, first := map[int][]process{}, process{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, ok := readStat(filepath.Join("/proc", entry.Name()), number)
		if !ok {
			continue
		}
		children[p.parent] = append(children[p.parent], p)
		if number == pid {
			first = p
		}
	}
	if first.Pid == 0 {
		return nil
	}
	found := []process{first}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].Pid]...)
	}
	return found
}

func readStat(dir string, pid int) (process, bool) {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	// The second field is the program's name in parentheses, and may hold anything.
	end := bytes.LastIndexByte(data, ')')
	if err != nil || end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	start, err2 := strconv.ParseUint(fields[19], 10, 64)
	return process{Pid: pid, Start: start, parent: parent, state: fields[0][0]}, err == nil && err2 == nil
}

// atRest says how far a process stands still: every thread of it stopped or gone, or some of them in the kernel's hands, from where they
// come back stopped.
func (p process) atRest() (stopped, waiting bool) {
	dir := fmt.Sprintf("/proc/%d/task", p.Pid)
	tasks, _ := os.ReadDir(dir)
	for _, task := range tasks {
		thread, ok := readStat(filepath.Join(dir, task.Name()), 0)
		switch {
		case !ok || strings.IndexByte("TtZX", thread.state) >= 0:
		case thread.state == 'D':
			waiting = true
		default:
			return false, false
		}
	}
	return !waiting, waiting
}
