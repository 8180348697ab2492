package link

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentpod/native/internal/streams"
)

// channel is a byte stream whose host end can be replaced, as that of a machine that is restored.
type channel struct {
	toGuest, toHost *io.PipeWriter
	fromHost        *io.PipeReader
	fromGuest       *io.PipeReader
}

func newChannel() *channel {
	c := &channel{}
	c.fromHost, c.toGuest = io.Pipe()
	c.fromGuest, c.toHost = io.Pipe()
	return c
}

func (c *channel) Read(data []byte) (int, error)  { return c.fromHost.Read(data) }
func (c *channel) Write(data []byte) (int, error) { return c.toHost.Write(data) }

// hostEnd is the host's end of a channel.
type hostEnd struct{ *channel }

func (h hostEnd) Read(data []byte) (int, error)  { return h.fromGuest.Read(data) }
func (h hostEnd) Write(data []byte) (int, error) { return h.toGuest.Write(data) }
func (hostEnd) Close() error                     { return nil }
func (hostEnd) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (hostEnd) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (hostEnd) SetDeadline(time.Time) error      { return nil }
func (hostEnd) SetReadDeadline(time.Time) error  { return nil }
func (hostEnd) SetWriteDeadline(time.Time) error { return nil }

// guest serves a port whose control requests are answered with their own text, and whose api is an echo.
func guest(t *testing.T, c *channel) *Port {
	t.Helper()
	dial := func(target string) (*net.UnixConn, error) {
		ours, theirs, err := streams.Pair()
		if err != nil || target != API && target != Control {
			return nil, err
		}
		go func() {
			defer theirs.Close()
			if target == API {
				io.Copy(theirs, theirs)
			} else {
				line := make([]byte, 4096)
				n, _ := theirs.Read(line)
				theirs.Write(line[:n])
			}
			theirs.CloseWrite()
		}()
		return ours, nil
	}
	port := NewPort(c)
	go port.Serve(streams.Targets{Dial: dial}.Serve)
	return port
}

func connect(t *testing.T, c *channel, marker string) (*Client, string) {
	t.Helper()
	next := NewMarker()
	conn, err := Connect(hostEnd{c}, marker, next, time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	return client, next
}

func ask(t *testing.T, client *Client, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var answer struct{ Text string }
	if err := client.Ask(ctx, map[string]string{"text": text}, &answer); err != nil || answer.Text != text {
		t.Fatalf("%q, %v", answer.Text, err)
	}
}

func TestConnectionsAreCarriedAndHalfClosed(t *testing.T) {
	c := newChannel()
	guest(t, c)
	client, _ := connect(t, c, FirstMarker)
	ask(t, client, "first")
	ours, theirs, err := streams.Pair()
	if err != nil {
		t.Fatal(err)
	}
	carried := make(chan error, 1)
	go func() { carried <- client.Carry(API, theirs) }()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	go func() {
		ours.Write(sent)
		ours.CloseWrite()
	}()
	got, err := io.ReadAll(ours)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes came back, %v", len(got), len(sent), err)
	}
	ours.Close()
	select {
	case err := <-carried:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the stream did not end")
	}
}

func TestANewSessionBeginsInTheMiddleOfAnOldOne(t *testing.T) {
	c := newChannel()
	guest(t, c)
	first, marker := connect(t, c, FirstMarker)
	ask(t, first, "first")
	// The former host is gone in the middle of a frame that announces 16 KiB.
	hostEnd{c}.Write([]byte{0, 0x40, 0, 0, 0, 0, 0, 0, 1, 'x', 'y'})
	second, _ := connect(t, c, marker)
	ask(t, second, "second")
}

func TestDataThatLooksLikeAnotherSessionIsData(t *testing.T) {
	c := newChannel()
	guest(t, c)
	client, next := connect(t, c, FirstMarker)
	// A program that knows how a session begins still does not know the marker.
	for _, text := range []string{"\n" + FirstMarker + " HELLO 00\n", "\n" + next[:len(next)-1] + " HELLO 00\n", NewMarker(), "agentpod-link-"} {
		ask(t, client, text)
	}
	// The control: with the marker, the session ends.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	hostEnd{c}.Write([]byte("\n" + next + " HELLO 00\n"))
	if err := client.Ask(ctx, map[string]string{"text": "after"}, &struct{}{}); err == nil {
		t.Fatal("the old session answers after a new one has begun")
	}
}

func TestAMachineThatFloodsTheChannelIsGivenUp(t *testing.T) {
	c := newChannel()
	var sent int64
	go io.Copy(io.Discard, c)
	go func() {
		noise := bytes.Repeat([]byte("noise\n"), 10_000)
		for {
			n, err := c.Write(noise)
			atomic.AddInt64(&sent, int64(n))
			if err != nil {
				return
			}
		}
	}()
	_, err := Connect(hostEnd{c}, FirstMarker, NewMarker(), time.Now().Add(time.Minute))
	if err == nil || !strings.Contains(err.Error(), "it sends other bytes") {
		t.Fatalf("%v after %d bytes", err, atomic.LoadInt64(&sent))
	}
	c.toHost.CloseWithError(io.ErrClosedPipe)
}

func TestAnAnswerThatIsTooLongIsRefused(t *testing.T) {
	records := func(lengths ...int) io.Reader {
		var all bytes.Buffer
		for _, length := range lengths {
			all.Write([]byte{0, byte(length >> 16), byte(length >> 8), byte(length)})
			all.Write(make([]byte, length))
		}
		return &all
	}
	if _, err := readRecords(records(maxRecord, 1, 0)); err == nil {
		t.Error("an answer of more than 64 KiB was read")
	}
	if data, err := readRecords(records(10, 20, 0)); err != nil || len(data) != 30 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := readRecords(records(10)); err == nil {
		t.Error("an answer without its end was read")
	}
}
