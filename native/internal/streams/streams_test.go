package streams

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/streams/streamstest"

	"golang.org/x/net/http2"
)

const token = "0123456789abcdef0123456789abcdef"

// listening is a listener whose api sends back what it receives, after the client has ended.
func listening(t *testing.T, timeout time.Duration) (l *Listener, name string) {
	t.Helper()
	name = "@agentpod-test-" + strconv.Itoa(os.Getpid()) + "-" + t.Name()
	l, err := Listen(name, token, Targets{API: func(conn *net.UnixConn) {
		go func() {
			defer conn.Close()
			all, err := io.ReadAll(conn)
			if err == nil {
				conn.Write(all)
			}
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.timeout = timeout
	go l.Serve()
	t.Cleanup(func() { l.Close() })
	return l, name
}

func dial(t *testing.T, name, greeting string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if greeting == "" {
		return conn // A connection above the limit is closed at once, and even an empty write would fail.
	}
	if _, err := io.WriteString(conn, greeting); err != nil {
		t.Fatal(err)
	}
	return conn
}

func client(t *testing.T, name string) *http2.ClientConn {
	t.Helper()
	c, err := streamstest.Client(dial(t, name, "agentpod "+token+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openAPI(t *testing.T, c *http2.ClientConn) *streamstest.Stream {
	t.Helper()
	stream, err := streamstest.Open(c, "api")
	if err != nil {
		t.Fatal(err)
	}
	return stream.(*streamstest.Stream)
}

func TestAStreamCarriesAConnectionAndItsEnds(t *testing.T) {
	_, name := listening(t, tokenTime)
	c := client(t, name)
	stream := openAPI(t, c)
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		stream.Write(want)
		stream.CloseWrite()
	}()
	if got, err := io.ReadAll(stream); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for _, target := range []string{"egress", "else", ""} {
		if _, err := streamstest.Open(c, target); err == nil {
			t.Errorf("there is a target %q", target)
		}
	}
}

// PROV-7
func TestTheNewestConnectionReplacesTheOneBefore(t *testing.T) {
	_, name := listening(t, tokenTime)
	first := openAPI(t, client(t, name))
	first.Write([]byte("half"))
	second := openAPI(t, client(t, name))
	if got, err := io.ReadAll(first); err == nil {
		t.Fatalf("the first ended with %q", got)
	}
	second.Write([]byte("whole"))
	second.CloseWrite()
	if got, err := io.ReadAll(second); err != nil || string(got) != "whole" {
		t.Fatalf("%q %v", got, err)
	}
}

// PROV-7
func TestAConnectionWithoutTheTokenIsClosedWithoutAnAnswer(t *testing.T) {
	_, name := listening(t, 200*time.Millisecond)
	for _, greeting := range []string{"agentpod " + strings.Repeat("x", len(token)) + "\n", "agentpod " + token + "x", http2.ClientPreface + http2.ClientPreface, ""} {
		conn := dial(t, name, greeting)
		if heard, _ := io.ReadAll(conn); len(heard) > 0 {
			t.Errorf("%q was answered: %q", greeting, heard)
		}
	}
	var silent []net.Conn
	for i := 0; i < 4*maxUnauthenticated; i++ {
		silent = append(silent, dial(t, name, ""))
	}
	for _, conn := range silent {
		io.ReadAll(conn)
	}
	stream := openAPI(t, client(t, name))
	stream.CloseWrite()
	if got, err := io.ReadAll(stream); err != nil || len(got) > 0 {
		t.Fatalf("%q %v", got, err)
	}
}

func TestATokenIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token + "\n")
	if got, err := ReadToken(path); err != nil || got != token {
		t.Fatalf("%q %v", got, err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Fatal("the file is still there")
	}
	for _, bad := range []string{"", "short", token + " " + token, token + "\n\n", strings.Repeat("x", longestToken+1)} {
		write(bad)
		if _, err := ReadToken(path); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	write(token)
	link := filepath.Join(dir, "link")
	os.Symlink(path, link)
	if _, err := ReadToken(link); err == nil {
		t.Error("a link is followed")
	}
	if _, err := ReadToken(dir); err == nil {
		t.Error("a directory is taken")
	}
}

func TestAStreamThatIsNotReadDoesNotBlockOthers(t *testing.T) {
	taken := make(chan *net.UnixConn, 1)
	here, there := net.Pipe()
	go Targets{API: func(conn *net.UnixConn) { taken <- conn }}.Serve(there)
	c, err := streamstest.Client(here)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 4; i++ {
		stuck := openAPI(t, c)
		stuckInside := <-taken
		defer stuckInside.Close()
		go stuck.Write(make([]byte, 4*streamWindow))
	}
	time.Sleep(100 * time.Millisecond)
	free := openAPI(t, c)
	inside := <-taken
	go free.Write(make([]byte, 2*streamWindow))
	inside.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(inside, make([]byte, 2*streamWindow)); err != nil {
		t.Fatal(err)
	}
	here.Close()
	if _, err := io.ReadAll(inside); err != nil {
		t.Fatalf("the end of the whole is no end of a connection: %v", err)
	}
}

func TestConnectEndsWithEitherSide(t *testing.T) {
	_, name := listening(t, 100*time.Millisecond)
	for _, end := range []string{"theirs", "ours"} {
		in, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- Connect(name, in, io.Discard) }()
		if end == "ours" {
			feed.Close()
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(end, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it goes on when", end, "is over")
		}
		feed.Close()
		in.Close()
	}
	if err := Connect("plain", os.Stdin, io.Discard); err == nil {
		t.Error("a name without @ is taken")
	}
}
