package wayout

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
	// holdTime is how long a connection waits for one of the egress process's.
	holdTime = 5 * time.Second
	// headerTime bounds the writing of a header, which the buffer of a fresh socket always has room for.
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

// A door takes the connections of programs inside and hands each to the egress process.
type door struct {
	listener *net.TCPListener
	link     *link
	names    *table
	hold     time.Duration

	open, held int32
}

// accept serves until the listener closes. Each connection has a goroutine, which ends with it; podd's end ends them all.
func (d *door) accept() {
	for {
		conn, err := d.listener.AcceptTCP()
		if err != nil {
			if !mayRetry(err) {
				log.Printf("the door: %v", err)
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

// mostOpen leaves most descriptors to podd itself: each connection takes two, and a sandbox that is out of them must still answer.
func mostOpen() int32 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur/4 < maxOpen {
		return int32(limit.Cur / 4)
	}
	return maxOpen
}

func (d *door) serve(conn *net.TCPConn) {
	conn.SetKeepAlive(false)
	line, ok := d.describe(conn)
	if !ok {
		reset(conn)
		return
	}
	if outside := d.handOver(line); outside != nil {
		join(conn, outside)
		return
	}
	reset(conn)
}

// describe finds out where the program wanted to go. An address that stands for a name that is no longer known leads nowhere.
func (d *door) describe(conn *net.TCPConn) (line []byte, ok bool) {
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

// destination is where a redirected connection was to go.
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

// handOver waits for a connection of the egress process and writes the line to it. It returns nil when none came in time, or too many wait.
func (d *door) handOver(line []byte) *net.UnixConn {
	defer atomic.AddInt32(&d.held, -1)
	if atomic.AddInt32(&d.held, 1) > maxHeld {
		return nil
	}
	for deadline := time.Now().Add(d.hold); ; {
		outside := d.link.take(deadline)
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

// reset tells the program that its connection failed, rather than that it ended.
func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}
