// Package egress is podd's part of the egress (spec/egress-protocol.md): it accepts the connections of
// programs inside, forwards them to the egress process outside, and resolves names. It knows no policy, and
// nothing outside trusts what it says.
package egress

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the descriptors of podd's sockets; a negative one is absent.
type Options struct {
	ListenerFD, OutFD, DNSFD, DNSOverTCPFD int
	// ContainerDNS and ContainerDNSOverTCP are where containers of an engine inside ask for names.
	ContainerDNS, ContainerDNSOverTCP []int
	// Port is where Serve itself listens on 127.0.0.1 if there is no listener. 0 is none.
	Port int
	// HandedIn: connections of the egress process come through Outside.Add, not through a socket.
	HandedIn bool
	// Guarded refuses connections to the egress socket from inside the sandbox.
	Guarded bool
}

// Outside is the connections of the egress process that did not come through its socket.
type Outside interface {
	// Add adds one.
	Add(*net.UnixConn)
	// Prune closes those that have ended and that no program uses.
	Prune()
}

// Serve takes the sockets over and returns. What it starts runs until podd ends. Without egress, outside is
// nil.
func Serve(o Options) (outside Outside, err error) {
	names := newAddressTable(time.Now)
	if outside, err = serveConnections(o, names); err != nil {
		return nil, fmt.Errorf("egress listener: %w", err)
	}
	if err := serveNames(o, names); err != nil {
		return nil, fmt.Errorf("resolver: %w", err)
	}
	return outside, nil
}

func serveConnections(o Options, names *addressTable) (Outside, error) {
	if o.Port == 0 && (o.ListenerFD < 0 || o.OutFD < 0 && !o.HandedIn) {
		return nil, nil
	}
	inside, err := openListener(o)
	if err != nil {
		return nil, err
	}
	l := &connections{guarded: o.Guarded}
	if o.OutFD >= 0 {
		out, err := listener(o.OutFD)
		if err != nil {
			return nil, err
		}
		outside, isUnix := out.(*net.UnixListener)
		if !isUnix {
			return nil, errWrongType
		}
		l.listener = outside
		go l.accept()
	}
	go (&forwarder{listener: inside, connections: l, names: names, hold: holdTime}).accept()
	return l, nil
}

// openListener takes the inherited listener, or opens one.
func openListener(o Options) (*net.TCPListener, error) {
	if o.ListenerFD < 0 {
		return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: o.Port})
	}
	in, err := listener(o.ListenerFD)
	if err != nil {
		return nil, err
	}
	inside, isTCP := in.(*net.TCPListener)
	if !isTCP {
		return nil, errWrongType
	}
	return inside, nil
}

var errWrongType = errors.New("a socket has the wrong type")

func serveNames(o Options, names *addressTable) error {
	r := &resolver{names: names}
	for _, fd := range append([]int{o.DNSFD}, o.ContainerDNS...) {
		if fd < 0 {
			continue
		}
		socket, err := packetSocket(fd)
		if err != nil {
			return err
		}
		go r.answerPackets(socket)
	}
	for _, fd := range append([]int{o.DNSOverTCPFD}, o.ContainerDNSOverTCP...) {
		if fd < 0 {
			continue
		}
		l, err := listener(fd)
		if err != nil {
			return err
		}
		go r.accept(l)
	}
	return nil
}

func packetSocket(fd int) (*net.UDPConn, error) {
	file := inherited(fd)
	defer file.Close()
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	socket, isUDP := conn.(*net.UDPConn)
	if !isUDP {
		return nil, errWrongType
	}
	return socket, nil
}

func inherited(fd int) *os.File {
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "socket")
}

func listener(fd int) (net.Listener, error) {
	file := inherited(fd)
	defer file.Close()
	return net.FileListener(file)
}

// retryPause is how long to wait if a connection cannot be accepted because podd is out of descriptors or
// memory.
const retryPause = 50 * time.Millisecond

// mayRetry waits a moment, and reports whether the listener still works after an error.
func mayRetry(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	time.Sleep(retryPause)
	return true
}
