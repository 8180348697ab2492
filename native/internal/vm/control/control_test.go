package control

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// client speaks to a program that handles each connection with do.
func client(t *testing.T, do func(net.Conn)) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go do(conn)
		}
	}()
	return NewClient("/", func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	})
}

// flood writes the same bytes until the other side has had enough.
func flood(conn net.Conn, head, more string) {
	defer conn.Close()
	io.WriteString(conn, head)
	for {
		if _, err := io.WriteString(conn, more); err != nil {
			return
		}
	}
}

func TestAnAnswerIsBoundedInLengthAndTime(t *testing.T) {
	for name, do := range map[string]func(net.Conn){
		"no answer": func(net.Conn) {},
		"the end":   func(conn net.Conn) { conn.Close() },
		"a head without an end": func(conn net.Conn) {
			flood(conn, "HTTP/1.1 204 No Content\r\n", "X-A: "+strings.Repeat("a", 1000)+"\r\n")
		},
		"a line without an end":  func(conn net.Conn) { flood(conn, "HTTP/1.1 ", "2") },
		"a body without an end":  func(conn net.Conn) { flood(conn, "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("b", 1000)) },
		"continues for ever":     func(conn net.Conn) { flood(conn, "", "HTTP/1.1 100 Continue\r\n\r\n") },
		"a body that never ends": func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc") },
		"a redirect": func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: http://localhost/x\r\nContent-Length: 0\r\n\r\n")
		},
		"other bytes": func(conn net.Conn) { flood(conn, "", "\x00\x01\x02") },
	} {
		begin := time.Now()
		if err := client(t, do).Do(http.MethodPut, "vm", nil, 300*time.Millisecond); err == nil {
			t.Errorf("%s was taken for success", name)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	good := client(t, func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n") })
	if err := good.Do(http.MethodPut, "vm", map[string]int{"a": 1}, 5*time.Second); err != nil {
		t.Error(err)
	}
}

func TestAnErrorIsOneShortLineThatAPersonCanRead(t *testing.T) {
	if found := message([]byte(`{"fault_message":"no\nsuch \u001b[1mdrive"}`)); found != "no such [1mdrive" {
		t.Errorf("%q", found)
	}
	if found := message([]byte(strings.Repeat("x", 10_000))); len(found) != maxMessage {
		t.Errorf("%d characters", len(found))
	}
}

// The program can replace everything in its folder while it is read.
func TestAFolderDoesNotLeadElsewhere(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", outside+".socket")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := t.TempDir()
	folder, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for name, target := range map[string]string{"file": outside, "socket": outside + ".socket", "sub": filepath.Dir(outside)} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "plain"), []byte("plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "sub/outside", "../" + filepath.Base(filepath.Dir(outside)) + "/outside", outside} {
		if data, err := folder.Read(name, 100); err == nil {
			t.Errorf("%s is %q", name, data)
		}
	}
	for _, name := range []string{"socket", "plain", "sub"} {
		if conn, err := folder.Dial(context.Background(), name); err == nil {
			conn.Close()
			t.Errorf("%s is a socket", name)
		}
	}
	if _, err := folder.Sub("sub"); err == nil {
		t.Error("a symbolic link is a directory")
	}
	if err := folder.Write("plain", os.Getuid(), strings.NewReader("x")); err == nil {
		t.Error("a file was replaced")
	}
	if _, err := folder.Read("plain", 4); err == nil {
		t.Error("a file that is too long was read")
	}
	// The same calls succeed with what belongs into the folder.
	if data, err := folder.Read("plain", 5); err != nil || string(data) != "plain" {
		t.Errorf("%q, %v", data, err)
	}
	inner, err := net.Listen("unix", filepath.Join(dir, "inner"))
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	conn, err := folder.Dial(context.Background(), "inner")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
