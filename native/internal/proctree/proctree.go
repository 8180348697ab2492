// Package proctree finds the processes of a sandbox through /proc, where no control group lists or counts them.
package proctree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Process is one as /proc shows it. The start time tells it from another that gets its pid later.
type Process struct {
	ID
	Parent int
	// State is T for one that is stopped.
	State byte
	// Ticks of the processor that it and its children that have ended used, and pages of memory that it holds.
	ticks, pages int64
}

// An ID names one process for all time.
type ID struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Descendants lists the process pid and all below it, parents before their children. Whatever runs in a pid namespace descends from its
// first process.
func Descendants(pid int) []Process {
	children, first := map[int][]Process{}, Process{}
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
		children[p.Parent] = append(children[p.Parent], p)
		if number == pid {
			first = p
		}
	}
	if first.Pid == 0 {
		return nil
	}
	found := []Process{first}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].Pid]...)
	}
	return found
}

// Read is the process that has the pid now.
func Read(pid int) (Process, bool) { return readStat(filepath.Join("/proc", strconv.Itoa(pid)), pid) }

func readStat(dir string, pid int) (Process, bool) {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	// The second field is the program's name in parentheses, and may hold anything.
	end := bytes.LastIndexByte(data, ')')
	if err != nil || end < 0 {
		return Process{}, false
	}
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 22 {
		return Process{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return Process{
		ID: ID{Pid: pid, Start: start}, Parent: int(number(1)), State: fields[0][0],
		ticks: number(11) + number(12) + number(13) + number(14), pages: number(21),
	}, err == nil
}

// A Sum is what processes use together. Memory that they share counts for each of them.
type Sum struct{ CPUMs, MemBytes, Processes int64 }

// Usage sums up a process and all below it.
func Usage(pid int) Sum {
	sum := Sum{}
	for _, p := range Descendants(pid) {
		sum.CPUMs += p.ticks * 1000 / ticksPerSecond
		sum.MemBytes += p.pages * int64(os.Getpagesize())
		sum.Processes++
	}
	return sum
}

// ticksPerSecond is USER_HZ, which is the same on every machine that Go runs on.
const ticksPerSecond = 100

// AtRest says how far a process stands still: every thread of it stopped or gone, or some of them in the kernel's hands, from where they
// come back stopped.
func (p Process) AtRest() (stopped, waiting bool) {
	dir := fmt.Sprintf("/proc/%d/task", p.Pid)
	tasks, _ := os.ReadDir(dir)
	for _, task := range tasks {
		thread, ok := readStat(filepath.Join(dir, task.Name()), 0)
		switch {
		case !ok || strings.IndexByte("TtZX", thread.State) >= 0:
		case thread.State == 'D':
			waiting = true
		default:
			return false, false
		}
	}
	return !waiting, waiting
}
