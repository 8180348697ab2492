package egress

import (
	"encoding/json"
	"log"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

const (
	maxOpen = 1024
	maxHeld = 256
	// holdTime is how long a connection waits for one of the egress process.
	holdTime = 5 * time.Second
	// headerTime bounds the writing of a header. The buffer of a new socket always has space for it.
	headerTime = time.Second
)

// A header is the line that says where a connection wants to go.
type header struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Port    uint16 `json:"port,omitempty"`
}

// A forwarder accepts the connections of programs inside and forwards each to the egress process.
type forwarder struct {
	listener    *net.TCPListener
	connections *connections
	names       *addressTable
	hold        time.Duration

	open, held int32
}

// accept serves until the listener closes. Each connection has a goroutine, which ends with it; all of them
// end with podd.
func (d *forwarder) accept() {
	for {
		conn, err := d.listener.AcceptTCP()
		if err != nil {
			if !mayRetry(err) {
				log.Printf("egress listener: %v", err)
				return
			}
			continue
		}
		if atomic.AddInt32(&d.open, 1) > mostOpen() {
			atomic.AddInt32(&d.open, -1)
			reset(conn)
			continue
		}
		go func() {
			defer atomic.AddInt32(&d.open, -1)
			d.serve(conn)
		}()
	}
}

// mostOpen leaves most descriptors to podd itself: each connection takes two, and podd must still answer when
// a sandbox is out of them.
func mostOpen() int32 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur/4 < maxOpen {
		return int32(limit.Cur / 4)
	}
	return maxOpen
}

func (d *forwarder) serve(conn *net.TCPConn) {
	conn.SetKeepAlive(false)
	line, ok := d.describe(conn)
	if !ok {
		reset(conn)
		return
	}
	if outside := d.handOver(line); outside != nil {
		relay(conn, outside)
		return
	}
	reset(conn)
}

// describe finds out where the program wanted to go. An address whose name was forgotten leads nowhere.
func (d *forwarder) describe(conn *net.TCPConn) (line []byte, ok bool) {
	h := header{Version: 1, Kind: "proxy"}
	if to, redirected := destination(conn); redirected {
		h.Kind, h.Port = "direct", to.Port()
		if isSynthetic(to.Addr()) {
			if h.Name, ok = d.names.nameOf(to.Addr()); !ok {
				return nil, false
			}
		} else {
			h.Address = to.Addr().String()
		}
	}
	line, err := json.Marshal(h)
	return append(line, '\n'), err == nil
}

// destination is where a redirected connection wanted to go.
func destination(conn *net.TCPConn) (to netip.AddrPort, redirected bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return to, false
	}
	raw.Control(func(fd uintptr) {
		address, port, err := peer.OriginalDestination(int(fd))
		to, redirected = netip.AddrPortFrom(netip.AddrFrom4(address), port), err == nil
	})
	own, ok := conn.LocalAddr().(*net.TCPAddr)
	return to, redirected && ok && to != own.AddrPort()
}

// handOver waits for a connection of the egress process and writes the line to it. It returns nil if none
// came in time, or too many connections wait.
func (d *forwarder) handOver(line []byte) *net.UnixConn {
	defer atomic.AddInt32(&d.held, -1)
	if atomic.AddInt32(&d.held, 1) > maxHeld {
		return nil
	}
	for deadline := time.Now().Add(d.hold); ; {
		outside := d.connections.take(deadline)
		if outside == nil {
			return nil
		}
		outside.SetWriteDeadline(time.Now().Add(headerTime))
		if _, err := outside.Write(line); err == nil {
			outside.SetWriteDeadline(time.Time{})
			return outside
		}
		outside.Close()
	}
}

// reset tells the program that its connection failed, not that it ended.
func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}
