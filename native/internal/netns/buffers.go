package netns

import "os"

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
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}
