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
	// Guarded refuses peers of the link that live inside the sandbox.
	Guarded bool
}

// Serve takes the sockets over and returns. What it starts runs until podd ends.
func Serve(o Options) error {
	names := newTable(time.Now)
	if err := serveDoor(o, names); err != nil {
		return fmt.Errorf("the door: %w", err)
	}
	if err := serveNames(o, names); err != nil {
		return fmt.Errorf("the resolver: %w", err)
	}
	return nil
}

func serveDoor(o Options, names *table) error {
	if o.DoorFD < 0 || o.OutFD < 0 {
		return nil
	}
	out, err := listener(o.OutFD)
	if err != nil {
		return err
	}
	in, err := listener(o.DoorFD)
	if err != nil {
		return err
	}
	outside, isUnix := out.(*net.UnixListener)
	inside, isTCP := in.(*net.TCPListener)
	if !isUnix || !isTCP {
		return errors.New("the sockets are of the wrong kind")
	}
	l := &link{listener: outside, guarded: o.Guarded}
	go l.accept()
	go (&door{listener: inside, link: l, names: names, hold: holdTime}).accept()
	return nil
}

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
			return errors.New("the socket is of the wrong kind")
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
