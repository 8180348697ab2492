// Package control is what programs that run virtual machines and are controlled by HTTP have in common:
// requests, the directory that they share with the driver, the channel to the machine, and the process.
// SECURITY: a machine may have taken such a program over, so everything that comes from one is bounded in
// length and time.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
)

const (
	// maxHead and maxBody bound a response.
	maxHead = 16 << 10
	maxBody = 1 << 20
	// maxMessage bounds what is shown of an error.
	maxMessage = 500
	// readyPause is how long to wait before a program that does not answer yet is asked again.
	readyPause = 2 * time.Millisecond
)

// A Client sends requests to one program, one after the other.
type Client struct {
	// base begins every path.
	base string
	http *http.Client
}

// NewClient returns a client of a program that dial connects to.
func NewClient(base string, dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{base: base, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			MaxResponseHeaderBytes: maxHead,
			MaxConnsPerHost:        1,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends a request, and returns an error unless the program says that it has done it. A nil body is none.
func (c *Client) Do(method, path string, body any, limit time.Duration) error {
	_, err := c.do(method, path, body, limit)
	return err
}

func (c *Client) do(method, path string, body any, limit time.Duration) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+c.base+path, content)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, fmt.Errorf("%s %s: no answer within %v", method, path, limit)
		}
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if len(text) > maxBody {
		return 0, fmt.Errorf("%s %s: the answer is too long", method, path)
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNoContent {
		return answer.StatusCode, fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, message(text))
	}
	return answer.StatusCode, nil
}

// AwaitReady returns when the program answers a request, or has ended.
func (c *Client) AwaitReady(path string, process *Process, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("it did not answer within %v", limit)
		}
		status, err := c.do(http.MethodGet, path, nil, left)
		if err == nil || status != 0 {
			return err
		}
		select {
		case <-process.Done():
			return process.Err()
		case <-time.After(readyPause):
		}
	}
}

// message is the error in an answer, in one line that a person can read.
func message(body []byte) string {
	var fault struct {
		Message string `json:"fault_message"`
	}
	text := string(body)
	if json.Unmarshal(body, &fault) == nil && fault.Message != "" {
		text = fault.Message
	}
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
}
