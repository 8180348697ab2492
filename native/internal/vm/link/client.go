package link

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"agentpod/native/internal/descriptor"

	"golang.org/x/net/http2"
)

// Targets of streams, besides those of podd.
const (
	API     = "api"
	Egress  = "egress"
	Control = "control"
)

const (
	headLength = 4
	// maxRecord is the largest record that package streams sends.
	maxRecord = 64 << 10
	maxAnswer = 64 << 10
)

// A Client opens streams to a machine.
type Client struct{ session *http2.ClientConn }

// NewClient speaks HTTP/2 on a connection that Connect returned.
func NewClient(conn net.Conn) (*Client, error) {
	transport := &http2.Transport{AllowHTTP: true, DisableCompression: true}
	session, err := transport.NewClientConn(conn)
	if err != nil {
		return nil, err
	}
	return &Client{session}, nil
}

// open opens a stream. What is read from body is sent; the answer consists of records.
func (c *Client) open(ctx context.Context, target string, body io.ReadCloser) (io.ReadCloser, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: target}, Host: target, Header: http.Header{}, Body: body, ContentLength: -1}
	answer, err := c.session.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("a stream to %s was refused: %s", target, answer.Status)
	}
	return answer.Body, nil
}

// Carry connects a connection with a target in the machine until both directions have ended, and closes it.
func (c *Client) Carry(target string, conn *net.UnixConn) error {
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := &upload{conn: conn, ended: make(chan struct{})}
	answer, err := c.open(ctx, target, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	go func() {
		select {
		case <-body.ended:
		case <-ctx.Done():
			return
		}
		// A peer that has closed its end does not read either.
		if raw, err := conn.SyscallConn(); err == nil {
			raw.Read(descriptor.HasHungUp)
		}
		cancel()
	}()
	if err := download(conn, answer); err != nil {
		return err
	}
	select {
	case <-body.ended:
	case <-ctx.Done():
	}
	return nil
}

// upload is a body that reads from a connection.
type upload struct {
	conn    *net.UnixConn
	ended   chan struct{}
	isEnded bool
}

func (u *upload) Read(data []byte) (int, error) {
	n, err := u.conn.Read(data)
	if err != nil && !u.isEnded {
		u.isEnded = true
		close(u.ended)
	}
	return n, err
}

// Close ends a Read that waits. Carry closes the connection itself.
func (u *upload) Close() error {
	u.conn.SetReadDeadline(time.Unix(1, 0))
	return nil
}

// download copies the records of an answer. SECURITY: these are bytes of the machine.
func download(to *net.UnixConn, from io.Reader) error {
	head := make([]byte, headLength)
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(head)
		if length > maxRecord {
			return errors.New("the machine sends a record that is too long")
		}
		if length == 0 {
			return to.CloseWrite()
		}
		if _, err := io.CopyN(to, from, int64(length)); err != nil {
			return err
		}
	}
}

// Ask sends one request to the first process of the machine, and reads its answer.
func (c *Client) Ask(ctx context.Context, request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, write := io.Pipe()
	go func() {
		write.Write(append(line, '\n'))
		write.Close()
	}()
	defer body.Close()
	stream, err := c.open(ctx, Control, body)
	if err != nil {
		return err
	}
	defer stream.Close()
	data, err := readRecords(stream)
	if err != nil {
		return err
	}
	var failure struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(data, &failure); err != nil {
		return fmt.Errorf("the machine's answer is not JSON: %w", err)
	}
	if failure.Error != "" {
		return errors.New(failure.Error)
	}
	return json.Unmarshal(data, answer)
}

// readRecords returns the content of all records up to the last.
func readRecords(from io.Reader) ([]byte, error) {
	var data []byte
	head := make([]byte, headLength)
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return nil, err
		}
		length := binary.BigEndian.Uint32(head)
		if length == 0 {
			return data, nil
		}
		if length > maxRecord || len(data)+int(length) > maxAnswer {
			return nil, errors.New("the machine's answer is too long")
		}
		more := make([]byte, length)
		if _, err := io.ReadFull(from, more); err != nil {
			return nil, err
		}
		data = append(data, more...)
	}
}

// IsUsable reports whether the session can open more streams.
func (c *Client) IsUsable() bool { return c.session.CanTakeNewRequest() || !c.session.State().Closed }
