package cgroup

import (
	"os"
	"strconv"
	"strings"
)

// socketBuffers is the file that limits what TCP and UDP sockets of a group hold. cgroup v1 counts that apart
// from other memory, and does not count it at all before the first limit is set; v2 counts it as memory.
const socketBuffers = "memory.kmem.tcp.limit_in_bytes"

const (
	// socketShare of its memory is what a sandbox may hold in sockets beside it, within bounds. The kernel
	// leaves every connection a little even at the limit.
	socketShare      = 16
	leastSocketBytes = 4 << 20
	mostSocketBytes  = 64 << 20
)

// limitSocketBuffers limits one sandbox's.
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

// limitAllSocketBuffers limits those of all sandboxes together to half of what makes the kernel press every
// connection of the machine, the host's included. What cannot be read or written is left: each sandbox's own
// limit says whether it holds.
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
