package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
)

// processShare is how many quarters of the machine's processes and threads all sandboxes together may use.
// The rest stays with the host.
const processShare = 3

// limitAllProcesses limits the processes and threads of all sandboxes together, which are in the group dir.
// It ignores values that it cannot read or write: each sandbox's own limit says whether it is enforced.
//
// SECURITY: RS-18.
func limitAllProcesses(dir string) {
	most := mostProcesses(dir, "/proc/sys/kernel")
	if most > 0 {
		write(dir, "pids.max", strconv.FormatInt(most/4*processShare, 10))
	}
}

// mostProcesses is the limit of the machine, or of a group above dir if that is lower: a service manager
// limits each user, and a container runtime each container. 0 means that the limit is not known.
func mostProcesses(dir, settings string) int64 {
	most := int64(0)
	consider := func(limit int64) {
		if limit > 0 && (most == 0 || limit < most) {
			most = limit
		}
	}
	for _, name := range []string{"pid_max", "threads-max"} {
		consider(readInt(settings, name))
	}
	for above := filepath.Dir(dir); isGroup(above); above = filepath.Dir(above) {
		consider(readInt(above, "pids.max"))
	}
	return most
}

func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}
