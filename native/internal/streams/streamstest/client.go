// Package streamstest is the other end of package streams, for tests.
package streamstest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http2"
)

// Client prepares a connection for opening streams on it.
func Client(conn net.Conn) (*http2.ClientConn, error) {
	return (&http2.Transport{AllowHTTP: true}).NewClientConn(conn)
}

// Open opens a stream to a target.
func Open(client *http2.ClientConn, target string) (net.Conn, error) {
	body, in := io.Pipe()
	response, err := client.RoundTrip(&http.Request{
		Method: http.MethodConnect, Host: target, URL: &url.URL{Scheme: "http", Host: target}, Body: body, ContentLength: -1,
	})
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	return &Stream{in: in, out: response.Body}, nil
}

// Stream is one connection.
type Stream struct {
	in   *io.PipeWriter
	out  io.ReadCloser
	left uint32
}

func (s *Stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		var head [4]byte
		if _, err := io.ReadFull(s.out, head[:]); err != nil {
			return 0, fmt.Errorf("cut: %v", err)
		}
		if s.left = binary.BigEndian.Uint32(head[:]); s.left == 0 {
			return 0, io.EOF
		}
	}
	if uint32(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.out.Read(p)
	s.left -= uint32(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// Write sends.
func (s *Stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite ends the data that is sent.
func (s *Stream) CloseWrite() error { return s.in.Close() }

// Close breaks the connection.
func (s *Stream) Close() error {
	s.in.CloseWithError(net.ErrClosed)
	return s.out.Close()
}

// LocalAddr and the rest make it a net.Conn. There are no deadlines.
func (s *Stream) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (s *Stream) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (s *Stream) SetDeadline(time.Time) error      { return nil }
func (s *Stream) SetReadDeadline(time.Time) error  { return nil }
func (s *Stream) SetWriteDeadline(time.Time) error { return nil }
