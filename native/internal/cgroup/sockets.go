package cgroup

import (
	"os"
	"strconv"
	"strings"
)

// socketBuffers is the file that limits the buffers of a group's TCP and UDP sockets. cgroup v1 counts them
// apart from other memory, and only after a limit is set; v2 counts them as memory.
const socketBuffers = "memory.kmem.tcp.limit_in_bytes"

const (
	// socketShare is the part of its memory that a sandbox may use for socket buffers in addition, within
	// bounds. The kernel gives every connection a little even at the limit.
	socketShare      = 16
	leastSocketBytes = 4 << 20
	mostSocketBytes  = 64 << 20
)

// limitSocketBuffers limits the buffers of one sandbox.
//
// SECURITY: RS-16.
func limitSocketBuffers(dir string, memory int64) error {
	bytes := memory / socketShare
	if bytes < leastSocketBytes {
		bytes = leastSocketBytes
	} else if bytes > mostSocketBytes {
		bytes = mostSocketBytes
	}
	return write(dir, socketBuffers, strconv.FormatInt(bytes, 10))
}

// limitAllSocketBuffers limits the buffers of all sandboxes together to half of the amount at which the
// kernel throttles every connection of the machine. It ignores values that it cannot read or write: each
// sandbox's own limit says whether it is enforced.
func limitAllSocketBuffers(dir string) {
	data, err := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) != 3 {
		return
	}
	if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
		write(dir, socketBuffers, strconv.FormatInt(pages/2*int64(os.Getpagesize()), 10))
	}
}
