package process

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killRounds bounds the race against a tree that forks while it is being killed.
const killRounds = 256

// killTree kills a process, its descendants and its session. It stops the processes before it kills them,
// because a stopped process does not fork. It repeats this until none is left: stopping takes a moment, and a
// process in the middle of a fork has one more child.
func killTree(root int) {
	for round := 0; round < killRounds; round++ {
		pids := members(root)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGSTOP)
		}
		for _, pid := range append(pids, members(root)...) {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

type procStat struct {
	pid, parent, session int
	zombie               bool
}

// members lists the running processes of root's tree or session.
func members(root int) []int {
	all := readProcesses()
	in := map[int]bool{root: true}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if !in[p.pid] && (in[p.parent] || p.session == root) {
				in[p.pid], grew = true, true
			}
		}
	}
	var pids []int
	for _, p := range all {
		if in[p.pid] && !p.zombie {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func readProcesses() []procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []procStat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, ok := readStat(pid); ok {
			all = append(all, stat)
		}
	}
	return all
}

// readStat parses /proc/<pid>/stat after the last ")", because the process chooses the name before it.
func readStat(pid int) (procStat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 4 {
		return procStat{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	session, _ := strconv.Atoi(string(fields[3]))
	return procStat{pid: pid, parent: parent, session: session, zombie: fields[0][0] == 'Z'}, true
}
