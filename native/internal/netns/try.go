package netns

import (
	"errors"
	"fmt"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

// tried is an address of the range for documentation, which no machine has.
var tried = unix.SockaddrInet4{Addr: [4]byte{203, 0, 113, 9}, Port: 12345}

// Try makes a connection inside to an outside address, and checks that it arrives at podd's listener.
func (n *Network) Try(namespace Namespace) error {
	if n.Level.Level != Transparent {
		return errors.New(n.Level.Reason)
	}
	return namespace.Inside(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: answerTimeout}); err != nil {
			return err
		}
		if err := unix.Connect(fd, &tried); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		// The handshake is complete, so the connection waits to be accepted.
		conn, _, err := unix.Accept4(int(n.Listener.Fd()), unix.SOCK_CLOEXEC)
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		defer unix.Close(conn)
		address, port, err := peer.OriginalDestination(conn)
		if err != nil {
			return fmt.Errorf("SO_ORIGINAL_DST: %w", err)
		}
		if address != tried.Addr || int(port) != tried.Port {
			return fmt.Errorf("a connection arrived with the destination %v:%d", address, port)
		}
		return nil
	})
}
