package netns

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A message is one netlink request under construction. Netlink uses the byte order of the machine, which is
// little-endian on both supported architectures. nftables values in network byte order are marked.
type message struct{ data []byte }

var native = binary.LittleEndian

// request begins a message. head is the fixed part after the header.
func request(kind, flags uint16, head []byte) *message {
	m := &message{data: make([]byte, unix.NLMSG_HDRLEN, 256)}
	native.PutUint16(m.data[4:], kind)
	native.PutUint16(m.data[6:], unix.NLM_F_REQUEST|flags)
	m.data = append(m.data, head...)
	return m
}

func (m *message) align() {
	for len(m.data)%4 != 0 {
		m.data = append(m.data, 0)
	}
}

func (m *message) put(kind uint16, value []byte) *message {
	m.align()
	m.data = native.AppendUint16(m.data, uint16(4+len(value)))
	m.data = native.AppendUint16(m.data, kind)
	m.data = append(m.data, value...)
	return m
}

// putNumber puts a number in network byte order, as nftables needs it.
func (m *message) putNumber(kind uint16, value uint32) *message {
	return m.put(kind, binary.BigEndian.AppendUint32(nil, value))
}

func (m *message) putText(kind uint16, value string) *message {
	return m.put(kind, append([]byte(value), 0))
}

// nest puts an attribute that consists of attributes.
func (m *message) nest(kind uint16, fill func()) *message {
	m.align()
	at := len(m.data)
	m.data = append(m.data, 0, 0, 0, 0)
	fill()
	native.PutUint16(m.data[at:], uint16(len(m.data)-at))
	native.PutUint16(m.data[at+2:], kind|unix.NLA_F_NESTED)
	return m
}

// finish numbers the message and sets its length.
func (m *message) finish(sequence uint32) []byte {
	native.PutUint32(m.data, uint32(len(m.data)))
	native.PutUint32(m.data[8:], sequence)
	m.align()
	return m.data
}

// answerTimeout bounds the wait for the kernel, which answers immediately.
const answerTimeout = 5

// send sends all messages at once and returns the first failure. It waits for an answer to each message that
// wants one.
func send(protocol int, messages ...*message) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerTimeout}); err != nil {
		return err
	}
	var batch []byte
	awaited := 0
	for i, m := range messages {
		if native.Uint16(m.data[6:])&unix.NLM_F_ACK != 0 {
			awaited++
		}
		batch = append(batch, m.finish(uint32(i+1))...)
	}
	if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("netlink", err)
	}
	return readAnswers(fd, awaited)
}

func readAnswers(fd, awaited int) error {
	buffer := make([]byte, 16<<10)
	for awaited > 0 {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return os.NewSyscallError("netlink", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			length := int(native.Uint32(rest))
			if length < unix.NLMSG_HDRLEN+4 || length > len(rest) {
				return fmt.Errorf("netlink: an answer of %d bytes", length)
			}
			if native.Uint16(rest[4:]) == unix.NLMSG_ERROR {
				if code := int32(native.Uint32(rest[unix.NLMSG_HDRLEN:])); code != 0 {
					return fmt.Errorf("request %d: %w", native.Uint32(rest[8:]), unix.Errno(-code))
				}
				awaited--
			}
			if length = (length + 3) &^ 3; length > len(rest) {
				break
			}
			rest = rest[length:]
		}
	}
	return nil
}
