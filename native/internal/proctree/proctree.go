// Package proctree finds the processes of a sandbox through /proc, if no control group lists or counts them.
package proctree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Process is one process in /proc. The start time distinguishes it from a later one with the same pid.
type Process struct {
	ID
	Parent int
	// State is T for a stopped process.
	State byte
	// ticks is the processor time of the process and its ended children. pages is the memory that it has.
	ticks, pages int64
}

// An ID identifies one process for all time.
type ID struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Descendants lists the process pid and all below it, parents before their children. Everything in a pid
// namespace descends from its first process.
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

// Read returns the process that has the pid now.
func Read(pid int) (Process, bool) { return readStat(filepath.Join("/proc", strconv.Itoa(pid)), pid) }

func readStat(dir string, pid int) (Process, bool) {
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	// The second field is the program's name in parentheses, and may contain any character.
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

// A Sum is what processes use together. Shared memory counts for each of them.
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

// AtRest says whether a process stands still: every thread is stopped or has ended, or some threads are in
// the kernel and will stop when they return from it.
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
