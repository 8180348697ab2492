package netns

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// buffers are the minimum, default and maximum size in bytes of a TCP connection's buffers. The kernel's
// default maximum is tens of megabytes. Every peer of a sandbox is on this machine, where one megabyte is as
// fast.
//
// SECURITY: RS-16.
var buffers = map[string]string{
	"/proc/sys/net/ipv4/tcp_rmem": "1024 131072 1048576",
	"/proc/sys/net/ipv4/tcp_wmem": "1024 16384 1048576",
}

// boundBuffers changes the network namespace of its thread.
func boundBuffers() error {
	for path, value := range buffers {
		err := os.WriteFile(path, []byte(value), 0)
		if errors.Is(err, unix.EINVAL) {
			err = boundKeepingLeast(path, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boundKeepingLeast is for kernels that refuse a minimum below their own.
func boundKeepingLeast(path, value string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	found, wanted := strings.Fields(string(data)), strings.Fields(value)
	if len(found) != 3 {
		return unix.EINVAL
	}
	return os.WriteFile(path, []byte(strings.Join([]string{found[0], wanted[1], wanted[2]}, " ")), 0)
}
