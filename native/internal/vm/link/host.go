// Package link is the one channel between a virtual machine and the process outside that supervises it. It
// carries the streams of package streams.
//
// A machine that continues from saved memory believes to be in the middle of a session with its former
// supervisor. A new one therefore begins a session in the channel itself. It writes a line with a marker that
// only it and the machine know, until the machine repeats it; the machine looks for the marker in everything
// that it reads, whatever it expects there. Each session agrees on the marker of the next one, so no data
// that passes through can be taken for it.
package link

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"agentpod/native/internal/random"
)

// FirstMarker begins the first session of a machine that has booted.
const FirstMarker = "agentpod-link-00000000000000000000000000000000"

// VsockPort is where a machine without a virtio port listens.
const VsockPort = 1024

const (
	maxLine     = 256
	chunkLength = 64 << 10
	// firstPause is how long to wait before a line is repeated that the machine has not answered. Each pause
	// is longer than the one before: a slow machine has to read all of these lines.
	firstPause, lastPause = 25 * time.Millisecond, time.Second
	// mostSkipped bounds what a machine may send before it answers.
	mostSkipped = 64 << 20
)

// NewMarker returns a random marker.
func NewMarker() string { return "agentpod-link-" + random.Hex(16) }

var markerGrammar = regexp.MustCompile(`\Aagentpod-link-[0-9a-f]{32}\z`)

func isMarker(text string) bool { return markerGrammar.MatchString(text) }

// ErrNotBegun is in the error of a Connect after which the machine may have the next marker already.
var ErrNotBegun = errors.New("the machine did not begin")

// Connect begins a session, from the host. marker is that of the machine, and next will be. The machine may
// have one of others in its place: the next markers of sessions that have not begun (ErrNotBegun). The
// returned connection replaces conn.
func Connect(conn net.Conn, marker, next string, deadline time.Time, others ...string) (net.Conn, error) {
	number := random.Hex(8)
	conn.SetDeadline(deadline)
	answers := bufio.NewReaderSize(conn, chunkLength)
	hello := map[string]string{}
	for _, candidate := range append([]string{marker}, others...) {
		hello[fmt.Sprintf("%s HELLO %s", candidate, number)] = candidate
	}
	heard, err := sayUntilHeard(conn, answers, hello, deadline)
	if err != nil {
		return nil, fmt.Errorf("the machine did not answer: %w", err)
	}
	if _, err := fmt.Fprintf(conn, "\n%s START %s %s\n", heard, number, next); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNotBegun, err)
	}
	started := fmt.Sprintf("%s STARTED %s", heard, number)
	if _, err := await(answers, map[string]string{started: heard}); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNotBegun, err)
	}
	conn.SetDeadline(time.Time{})
	return &buffered{conn, answers}, nil
}

// sayUntilHeard repeats lines until one comes back, and returns its marker.
func sayUntilHeard(conn net.Conn, answers *bufio.Reader, lines map[string]string, deadline time.Time) (string, error) {
	type answer struct {
		marker string
		err    error
	}
	heard := make(chan answer, 1)
	go func() {
		marker, err := await(answers, lines)
		heard <- answer{marker, err}
	}()
	text := "\n"
	for line := range lines {
		text += line + "\n"
	}
	for pause := firstPause; ; pause *= 2 {
		if _, err := conn.Write([]byte(text)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "", err
		}
		if pause > lastPause {
			pause = lastPause
		}
		select {
		case found := <-heard:
			return found.marker, found.err
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			found := <-heard
			return found.marker, found.err
		}
	}
}

// await skips everything before one of the lines, and returns its marker. SECURITY: these are bytes of the
// machine, bounded in number.
func await(answers *bufio.Reader, lines map[string]string) (string, error) {
	for skipped := 0; skipped < mostSkipped; {
		line, err := answers.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
		skipped += len(line)
		if marker, found := lines[strings.TrimSpace(string(line))]; found {
			return marker, nil
		}
	}
	return "", errors.New("it sends other bytes")
}

// buffered is a connection of which some bytes were read ahead.
type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(data []byte) (int, error) { return b.reader.Read(data) }
