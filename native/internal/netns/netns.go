// Package netns furnishes the network namespace of a sandbox from outside: loopback, the sockets that podd
// gets, and the redirection of what would leave. It speaks netlink itself, so that no tool has to be
// installed.
package netns

import (
	"fmt"
	"os"

	"agentpod/native/internal/mount"
	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

const (
	doorBacklog = 512
	dnsPort     = 53
	dnsBacklog  = 64
)

var (
	doorAddress = [4]byte{127, 0, 0, 1}
	dnsAddress  = [4]byte{127, 0, 0, 53}
)

// A Level says how programs inside get out: by what they do anyway, by the proxy alone, or not at all.
type Level struct {
	Level  string `json:"level"`
	Reason string `json:"reason,omitempty"`
}

// The levels.
const (
	Transparent = "transparent"
	Proxy       = "proxy"
	None        = "none"
)

// NoWay is a level without any way out.
func NoWay(format string, args ...any) Level {
	return Level{Level: None, Reason: fmt.Sprintf(format, args...)}
}

// A Network is a furnished namespace. The files are the sockets inside it that podd gets; none is there at
// level "none".
type Network struct {
	Level                 Level
	Door, DNS, DNSOverTCP *os.File
}

// Furnish never fails: what cannot be had lowers the level. The caller closes what it returns.
func Furnish(namespaces mount.Namespaces) *Network { return furnish(namespaces, redirect) }

func furnish(namespaces mount.Namespaces, redirect func() error) *Network {
	n := &Network{Level: Level{Level: Transparent}}
	err := namespaces.Inside(func() error {
		if err := raiseLoopback(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
		if err := n.listen(); err != nil {
			return err
		}
		if err := boundBuffers(); err != nil {
			return err
		}
		if err := redirect(); err != nil {
			n.Level = Level{Level: Proxy, Reason: fmt.Sprintf("nftables: %v", err)}
			return nil
		}
		// Without the redirection this would lead connections to programs inside, instead of nowhere.
		if err := claimEveryAddress(); err != nil {
			n.Level = Level{Level: Proxy, Reason: fmt.Sprintf("local route: %v", err)}
		}
		return nil
	})
	if err != nil {
		n.Close()
		return &Network{Level: NoWay("network namespace: %v", err)}
	}
	return n
}

// Close closes podhost's copies of the sockets.
func (n *Network) Close() {
	for _, file := range []*os.File{n.Door, n.DNS, n.DNSOverTCP} {
		if file != nil {
			file.Close()
		}
	}
}

func (n *Network) listen() (err error) {
	if n.Door, err = bind(unix.SOCK_STREAM, doorAddress, peer.DoorPort, doorBacklog); err != nil {
		return err
	}
	if n.DNS, err = bind(unix.SOCK_DGRAM, dnsAddress, dnsPort, 0); err != nil {
		return err
	}
	n.DNSOverTCP, err = bind(unix.SOCK_STREAM, dnsAddress, dnsPort, dnsBacklog)
	return err
}

// bind makes a socket in the namespace of the calling thread.
func bind(kind int, address [4]byte, port, backlog int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	name := fmt.Sprintf("%d.%d.%d.%d:%d", address[0], address[1], address[2], address[3], port)
	file := os.NewFile(uintptr(fd), name)
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: address}); err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("bind %s: %w", name, err)
	}
	return file, nil
}
