package process

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// OOMCounter reads how often the kernel has killed a process of the sandbox's memory group. podd cannot see
// its group, so the file is an inherited descriptor: memory.events (cgroup v2) or memory.oom_control (v1).
type OOMCounter struct{ FD int }

// read returns 0 if there is nothing to read, so that a comparison finds no kill.
func (c *OOMCounter) read() int64 {
	if c == nil || c.FD < 0 {
		return 0
	}
	var text [1024]byte
	n, err := unix.Pread(c.FD, text[:], 0)
	if err != nil {
		return 0
	}
	for _, line := range bytes.Split(text[:n], []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) == 2 && string(fields[0]) == "oom_kill" {
			count, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return count
		}
	}
	return 0
}
