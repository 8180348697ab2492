package egress

import (
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxPacket is more than any valid query needs.
	maxPacket = 1500
	// packetSize is the size that the OPT record announces.
	packetSize = 1232
	timeToLive = 60

	maxResolving  = 32
	resolvingIdle = 10 * time.Second
)

// A resolver answers itself. No question leaves the sandbox: the policy decides about a name when a program
// connects to it.
type resolver struct {
	names *addressTable
	open  int32
}

// answerPackets serves UDP until the socket closes.
func (r *resolver) answerPackets(socket *net.UDPConn) {
	query, reply := make([]byte, maxPacket), make([]byte, 0, maxPacket)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(query)
		if err != nil {
			if !mayRetry(err) {
				log.Printf("resolver: %v", err)
				return
			}
			continue
		}
		if reply = r.answer(reply[:0], query[:n]); len(reply) > 0 {
			socket.WriteToUDPAddrPort(reply, from)
		}
	}
}

// accept serves TCP until the listener closes.
func (r *resolver) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			if !mayRetry(err) {
				log.Printf("resolver: %v", err)
				return
			}
			continue
		}
		if atomic.AddInt32(&r.open, 1) > maxResolving {
			atomic.AddInt32(&r.open, -1)
			conn.Close()
			continue
		}
		go func() {
			defer atomic.AddInt32(&r.open, -1)
			defer conn.Close()
			r.answerStream(conn)
		}()
	}
}

// answerStream answers queries one after the other. Each has its length in front.
func (r *resolver) answerStream(conn net.Conn) {
	query, reply := make([]byte, 2+maxPacket), make([]byte, 0, 2+maxPacket)
	for {
		conn.SetDeadline(time.Now().Add(resolvingIdle))
		if _, err := io.ReadFull(conn, query[:2]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(query))
		if size > maxPacket {
			return
		}
		if _, err := io.ReadFull(conn, query[2:2+size]); err != nil {
			return
		}
		if reply = r.answer(append(reply[:0], 0, 0), query[2:2+size]); len(reply) == 2 {
			return
		}
		binary.BigEndian.PutUint16(reply, uint16(len(reply)-2))
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// A record is the one record of an answer, or none.
type record struct{ data []byte }

// answer appends the answer to a query, or nothing if none is due.
func (r *resolver) answer(to, packet []byte) []byte {
	q, err := parse(packet)
	if err == errSilent {
		return to
	}
	code, found := codeFormat, record{}
	if err == nil {
		code, found = r.resolve(q)
	} else {
		q.raw, q.hasOPT = nil, false
	}
	return q.write(to, code, found)
}

func (r *resolver) resolve(q question) (code int, found record) {
	switch {
	case q.opcode() != 0:
		return codeNotImplemented, found
	case q.hasOPT && q.version != 0:
		return codeBadVersion, found
	case q.class != classIN:
		return codeRefused, found
	case q.kind >= typeIXFR && q.kind <= typeANY || q.kind == typeOPT:
		return codeNotImplemented, found
	case !q.isName:
		return codeNoSuchName, found
	case q.kind == typePTR:
		return r.resolvePointer(q.name)
	case q.name == "localhost" || strings.HasSuffix(q.name, ".localhost"):
		return 0, loopbackRecord(q.kind)
	case q.kind != typeA:
		return 0, found
	}
	address, ok := r.names.addressOf(q.name)
	if !ok {
		return codeFailure, found
	}
	return 0, record{address.AsSlice()}
}

func loopbackRecord(kind uint16) record {
	switch kind {
	case typeA:
		return record{[]byte{127, 0, 0, 1}}
	case typeAAAA:
		return record{net.IPv6loopback}
	}
	return record{}
}

// resolvePointer knows the names of its own addresses.
func (r *resolver) resolvePointer(name string) (code int, found record) {
	labels := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa"), ".")
	if len(labels) != 4 || !strings.HasSuffix(name, ".in-addr.arpa") {
		return codeNoSuchName, found
	}
	var address [4]byte
	for i, label := range labels {
		number, err := strconv.ParseUint(label, 10, 8)
		if err != nil || len(label) > 1 && label[0] == '0' {
			return codeNoSuchName, found
		}
		address[3-i] = byte(number)
	}
	known, ok := r.names.nameOf(netip.AddrFrom4(address))
	if !ok {
		return codeNoSuchName, found
	}
	for _, label := range strings.Split(known, ".") {
		found.data = append(append(found.data, byte(len(label))), label...)
	}
	found.data = append(found.data, 0)
	return 0, found
}

// write appends the answer's packet.
func (q *question) write(to []byte, code int, found record) []byte {
	// An answer from a resolver that offers recursion. The flag that asks for it is sent back.
	flags := 0x8080 | q.flags&0x7900 | uint16(code&15)
	counts := [4]uint16{}
	if q.raw != nil {
		counts[0] = 1
	}
	if found.data != nil {
		counts[1] = 1
	}
	if q.hasOPT {
		counts[3] = 1
	}
	to = binary.BigEndian.AppendUint16(to, q.id)
	to = binary.BigEndian.AppendUint16(to, flags)
	for _, count := range counts {
		to = binary.BigEndian.AppendUint16(to, count)
	}
	to = append(to, q.raw...)
	if found.data != nil {
		// The name is that of the question, after the header.
		to = append(to, 0xc0, headerLength)
		to = binary.BigEndian.AppendUint16(to, q.kind)
		to = binary.BigEndian.AppendUint16(to, classIN)
		to = binary.BigEndian.AppendUint32(to, timeToLive)
		to = binary.BigEndian.AppendUint16(to, uint16(len(found.data)))
		to = append(to, found.data...)
	}
	if q.hasOPT {
		to = append(to, 0, 0, typeOPT)
		to = binary.BigEndian.AppendUint16(to, packetSize)
		to = append(to, byte(code>>4), 0, 0, 0, 0, 0)
	}
	return to
}
