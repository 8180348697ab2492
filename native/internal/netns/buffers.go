package netns

import "os"

// buffers are the least, usual and most bytes that the kernel gives one TCP connection by itself. By default
// one takes tens of megabytes; all that a sandbox connects to is on this machine, where a megabyte is as
// fast.
//
// SECURITY: RS-16.
var buffers = map[string]string{
	"/proc/sys/net/ipv4/tcp_rmem": "1024 131072 1048576",
	"/proc/sys/net/ipv4/tcp_wmem": "1024 16384 1048576",
}

// boundBuffers works on the network namespace of its thread.
func boundBuffers() error {
	for path, value := range buffers {
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}
