// Package wayout is podd's side of the way out (spec/egress-protocol.md): the door, where connections of programs inside arrive, the link, by
// which they are handed to the egress process, and the resolver. It knows no policy, and nobody outside believes what it says.
package wayout

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the inherited descriptors; one below 0 is not there.
type Options struct {
	DoorFD, OutFD, DNSFD, DNSOverTCPFD int
	// DoorPort is where podd itself listens on 127.0.0.1, where no door was handed to it. 0 is none.
	DoorPort int
	// Guarded refuses peers of the link that live inside the sandbox.
	Guarded bool
}

// Park hands over a connection of the egress process that came by another way than its socket.
type Park func(*net.UnixConn)

// Serve takes the sockets over and returns. What it starts runs until podd ends. Where there is no door, park is nil.
func Serve(o Options) (park Park, err error) {
	names := newTable(time.Now)
	if park, err = serveDoor(o, names); err != nil {
		return nil, fmt.Errorf("the door: %w", err)
	}
	if err := serveNames(o, names); err != nil {
		return nil, fmt.Errorf("the resolver: %w", err)
	}
	return park, nil
}

func serveDoor(o Options, names *table) (Park, error) {
	if o.DoorPort == 0 && (o.DoorFD < 0 || o.OutFD < 0) {
		return nil, nil
	}
	inside, err := openDoor(o)
	if err != nil {
		return nil, err
	}
	l := &link{guarded: o.Guarded}
	if o.OutFD >= 0 {
		out, err := listener(o.OutFD)
		if err != nil {
			return nil, err
		}
		outside, isUnix := out.(*net.UnixListener)
		if !isUnix {
			return nil, errWrongKind
		}
		l.listener = outside
		go l.accept()
	}
	go (&door{listener: inside, link: l, names: names, hold: holdTime}).accept()
	return l.park, nil
}

// openDoor takes the door that was handed over, or makes one.
func openDoor(o Options) (*net.TCPListener, error) {
	if o.DoorFD < 0 {
		return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: o.DoorPort})
	}
	in, err := listener(o.DoorFD)
	if err != nil {
		return nil, err
	}
	inside, isTCP := in.(*net.TCPListener)
	if !isTCP {
		return nil, errWrongKind
	}
	return inside, nil
}

var errWrongKind = errors.New("a socket is of the wrong kind")

func serveNames(o Options, names *table) error {
	r := &resolver{names: names}
	if o.DNSFD >= 0 {
		file := inherited(o.DNSFD)
		defer file.Close()
		conn, err := net.FilePacketConn(file)
		if err != nil {
			return err
		}
		socket, ok := conn.(*net.UDPConn)
		if !ok {
			return errWrongKind
		}
		go r.answerPackets(socket)
	}
	if o.DNSOverTCPFD >= 0 {
		l, err := listener(o.DNSOverTCPFD)
		if err != nil {
			return err
		}
		go r.accept(l)
	}
	return nil
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

// retryPause is how long to wait where a connection cannot be accepted because podd is out of descriptors or memory.
const retryPause = 50 * time.Millisecond

// mayRetry reports whether a listener still works after an error, and lets a moment pass.
func mayRetry(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	time.Sleep(retryPause)
	return true
}
