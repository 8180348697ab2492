package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// A Port is the guest's end of the channel.
type Port struct {
	port io.ReadWriter
	// chunk is what was read last; buffer is the part of it that was not used yet. An emulated processor is
	// slow: nothing is copied or looked at twice.
	chunk, buffer []byte
	// clear is how many bytes of buffer are not part of a marker.
	clear  int
	marker string

	writing sync.Mutex
	// current is the session that may write.
	current *session
}

// NewPort returns the guest's end of a channel that has not been used yet.
func NewPort(port io.ReadWriter) *Port {
	return &Port{port: port, chunk: make([]byte, 0, chunkLength), marker: FirstMarker}
}

// Serve runs one session after the other. It returns when the port fails.
func (p *Port) Serve(serve func(net.Conn)) error {
	for {
		s, err := p.accept()
		if err != nil {
			return err
		}
		serve(s)
		s.Close()
	}
}

// accept waits for the host's handshake.
func (p *Port) accept() (*session, error) {
	hello := ""
	for {
		line, err := p.line()
		if err != nil {
			return nil, err
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 3 && words[0] == p.marker && words[1] == "HELLO":
			hello = words[2]
			if err := p.say(nil, fmt.Sprintf("\n%s HELLO %s\n", p.marker, hello)); err != nil {
				return nil, err
			}
		case len(words) == 4 && words[0] == p.marker && words[1] == "START" && words[2] == hello && isMarker(words[3]):
			old := p.marker
			p.marker = words[3]
			s := &session{port: p}
			// What the host has sent already belongs to the session.
			p.clear = len(p.buffer) - partOf(p.buffer, p.marker)
			return s, p.say(s, fmt.Sprintf("\n%s STARTED %s\n", old, hello))
		}
	}
}

// say writes a line of the handshake. From then on only the session s may write.
func (p *Port) say(s *session, text string) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.current = s
	_, err := io.WriteString(p.port, text)
	return err
}

// line returns the next line. What is longer than any line of a handshake belongs to a session that has
// ended, and is dropped.
func (p *Port) line() (string, error) {
	for {
		if end := bytes.IndexByte(p.buffer, '\n'); end >= 0 {
			line := string(p.buffer[:end])
			p.buffer = p.buffer[end+1:]
			return line, nil
		}
		if len(p.buffer) > maxLine {
			p.buffer = nil
		}
		if err := p.fill(); err != nil {
			return "", err
		}
	}
}

// fill reads more. What is left in the buffer stays; it is less than a line.
func (p *Port) fill() error {
	kept := copy(p.chunk[:cap(p.chunk)], p.buffer)
	n, err := p.port.Read(p.chunk[kept:cap(p.chunk)])
	p.buffer, p.clear = p.chunk[:kept+n], 0
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// A session is a net.Conn that ends when the host begins another one.
type session struct {
	port *Port
	// ended is only used by the goroutine that reads.
	ended bool
}

var errEnded = errors.New("the host has begun another session")

// Read never returns bytes of the next handshake.
func (s *session) Read(data []byte) (int, error) {
	p := s.port
	for !s.ended {
		if p.clear > 0 {
			n := copy(data, p.buffer[:p.clear])
			p.buffer, p.clear = p.buffer[n:], p.clear-n
			return n, nil
		}
		// What is left may be the beginning of a marker.
		if err := p.fill(); err != nil {
			s.ended = true
			return 0, err
		}
		if at := bytes.Index(p.buffer, []byte(p.marker)); at >= 0 {
			p.buffer, s.ended = p.buffer[at:], true
		} else {
			p.clear = len(p.buffer) - partOf(p.buffer, p.marker)
		}
	}
	return 0, io.EOF
}

// partOf returns how many bytes at the end of data may be the beginning of a marker.
func partOf(data []byte, marker string) int {
	most := len(marker) - 1
	if len(data) < most {
		most = len(data)
	}
	for n := most; n > 0; n-- {
		if string(data[len(data)-n:]) == marker[:n] {
			return n
		}
	}
	return 0
}

func (s *session) Write(data []byte) (int, error) {
	s.port.writing.Lock()
	defer s.port.writing.Unlock()
	if s.port.current != s {
		return 0, errEnded
	}
	return s.port.port.Write(data)
}

// Close keeps the session from writing. What the host still sends for it is dropped before the next one.
func (s *session) Close() error {
	s.port.writing.Lock()
	defer s.port.writing.Unlock()
	if s.port.current == s {
		s.port.current = nil
	}
	return nil
}

func (s *session) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (s *session) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (s *session) SetDeadline(time.Time) error      { return nil }
func (s *session) SetReadDeadline(time.Time) error  { return nil }
func (s *session) SetWriteDeadline(time.Time) error { return nil }
