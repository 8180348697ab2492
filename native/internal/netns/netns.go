// Package netns sets up the network namespace of a sandbox: loopback, podd's sockets, and the redirection of
// outgoing connections. podd does it when it starts, with capabilities that it drops afterwards. The package
// speaks netlink itself, so no tool has to be installed.
package netns

import (
	"fmt"
	"os"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

const (
	listenerBacklog = 512
	dnsPort         = 53
	dnsBacklog      = 64
)

var (
	listenerAddress = [4]byte{127, 0, 0, 1}
	dnsAddress      = [4]byte{127, 0, 0, 53}
	anyAddress      = [4]byte{}
)

// A Level says how connections of programs inside leave: all are redirected, only those through the proxy
// leave, or none leave.
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

// Unavailable is the level of a network without egress.
func Unavailable(format string, args ...any) Level {
	return Level{Level: None, Reason: fmt.Sprintf(format, args...)}
}

// A Network is a namespace that is set up. The files are the sockets inside it that podd gets. At level
// "none" there are none.
type Network struct {
	Level                     Level
	Listener, DNS, DNSOverTCP *os.File
	// ContainerDNS and ContainerDNSOverTCP are where containers of an engine inside ask; otherwise nil.
	ContainerDNS, ContainerDNSOverTCP []*os.File
}

// A Namespace is where the network is set up.
type Namespace interface {
	// Inside runs work on a thread in the network namespace.
	Inside(work func() error) error
}

// Own is the network namespace of the process.
type Own struct{}

// Inside runs work on the calling thread.
func (Own) Inside(work func() error) error { return work() }

// Setup never fails: if a part is not available, the level is lower. The caller closes the result.
func Setup(namespace Namespace) *Network { return setup(namespace, redirect) }

// SetupWithContainers is Setup for a container engine inside, whose kernel is the sandbox's own. It also
// redirects connections of containers, which arrive over the engine's bridges, and leaves alone those to
// containers.
func SetupWithContainers(namespace Namespace) *Network {
	n := &Network{Level: Level{Level: Transparent}}
	err := namespace.Inside(func() error {
		if err := raiseLoopback(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
		if err := makeBridge(); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		if err := n.listen(); err != nil {
			return err
		}
		if err := n.listenForContainers(); err != nil {
			return err
		}
		return redirectContainers()
	})
	if err != nil {
		n.Close()
		return &Network{Level: Unavailable("network namespace: %v", err)}
	}
	return n
}

func setup(namespace Namespace, redirect func() error) *Network {
	n := &Network{Level: Level{Level: Transparent}}
	err := namespace.Inside(func() error {
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
		return &Network{Level: Unavailable("network namespace: %v", err)}
	}
	return n
}

// Close closes podhost's copies of the sockets.
func (n *Network) Close() {
	all := append([]*os.File{n.Listener, n.DNS, n.DNSOverTCP}, n.ContainerDNS...)
	for _, file := range append(all, n.ContainerDNSOverTCP...) {
		if file != nil {
			file.Close()
		}
	}
}

func (n *Network) listen() (err error) {
	if n.Listener, err = bind(unix.SOCK_STREAM, listenerAddress, peer.EgressPort, listenerBacklog); err != nil {
		return err
	}
	if n.DNS, err = bind(unix.SOCK_DGRAM, dnsAddress, dnsPort, 0); err != nil {
		return err
	}
	n.DNSOverTCP, err = bind(unix.SOCK_STREAM, dnsAddress, dnsPort, dnsBacklog)
	return err
}

// listenForContainers accepts connections of containers, which are redirected to the address of the bridge
// that they arrive on, and their questions for names.
func (n *Network) listenForContainers() (err error) {
	n.Listener.Close()
	if n.Listener, err = bind(unix.SOCK_STREAM, anyAddress, peer.EgressPort, listenerBacklog); err != nil {
		return err
	}
	for _, at := range []struct {
		address [4]byte
		port    int
	}{
		{anyAddress, containerDNSPort},
		// Containers without a network of their own ask there, and nothing redirects them.
		{bridgeAddress, dnsPort},
	} {
		packets, err := bind(unix.SOCK_DGRAM, at.address, at.port, 0)
		if err != nil {
			return err
		}
		n.ContainerDNS = append(n.ContainerDNS, packets)
		stream, err := bind(unix.SOCK_STREAM, at.address, at.port, dnsBacklog)
		if err != nil {
			return err
		}
		n.ContainerDNSOverTCP = append(n.ContainerDNSOverTCP, stream)
	}
	return nil
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
