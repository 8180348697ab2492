package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFilesCanBeUploadedAndDownloaded(t *testing.T) {
	p := startPodd(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "new/dir/f.txt")
	p.plain("POST", "/files?path="+name, "hello", 200, "Content-Type", "application/octet-stream")
	if got := p.plain("GET", "/files?path="+name, "", 200); got != "hello" {
		t.Fatalf("%q", got)
	}
	if got := p.plain("GET", "/files?path="+name, "", 206, "Range", "bytes=1-2"); got != "el" {
		t.Fatalf("%q", got)
	}
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + dir + "/x/one\"\r\n\r\n1\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + dir + "/two\"\r\n\r\n22\r\n--b--\r\n"
	p.plain("POST", "/files", form, 200, "Content-Type", "multipart/form-data; boundary=b")
	if text, _ := os.ReadFile(dir + "/two"); string(text) != "22" {
		t.Fatalf("%q", text)
	}
	unnamed := "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nthree\r\n--b--\r\n"
	p.plain("POST", "/files?path="+dir+"/three", unnamed, 200, "Content-Type", "multipart/form-data; boundary=b")
	p.plain("POST", "/files", unnamed, 400, "Content-Type", "multipart/form-data; boundary=b")
}

func TestSpecialFilesAreRefusedImmediately(t *testing.T) {
	p := startPodd(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	unix.Mkfifo(pipe, 0o666)
	os.Symlink("/proc/self/fd/3", filepath.Join(dir, "link"))
	for _, name := range []string{pipe, dir, "/dev/zero", "/dev/tty"} {
		p.plain("GET", "/files?path="+name, "", 400)
		p.plain("POST", "/files?path="+name, "x", 400, "Content-Type", "application/octet-stream")
	}
	for _, name := range []string{"environ", "mem", "maps", "task/" + strconv.Itoa(p.command.Process.Pid) + "/environ"} {
		p.plain("GET", "/files?path=/proc/self/"+name, "", 403)
		p.plain("POST", "/files?path=/proc/self/"+name, "x", 400, "Content-Type", "application/octet-stream")
	}
	p.plain("GET", "/files?path=/proc/thread-self/environ", "", 403)
	p.plain("GET", "/files?path="+dir+"/link", "", 400)
	p.plain("GET", "/files?path="+dir+"/none", "", 404)
	p.plain("GET", "/files?path=a%00b", "", 400)
}

func TestKernelFilesAreReadToTheirEnd(t *testing.T) {
	p := startPodd(t)
	for _, name := range []string{"/proc/cpuinfo", "/proc/self/net/dev", "/proc/sys/kernel/ostype", "/sys/class/net/lo/mtu", "/proc/1/cmdline"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := p.plain("GET", "/files?path="+name, "", 200)
		if name == "/proc/self/net/dev" || name == "/proc/cpuinfo" {
			got, want = strings.SplitN(got, "\n", 2)[0], []byte(strings.SplitN(string(want), "\n", 2)[0])
		}
		if got != string(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

}

func TestTheFilesystemServiceAnswersLikeEnvd(t *testing.T) {
	p := startPodd(t)
	dir := t.TempDir()
	call := func(method, body string, status int) string {
		t.Helper()
		return p.plain("POST", "/filesystem.Filesystem/"+method, strings.ReplaceAll(body, "DIR", dir), status)
	}
	call("MakeDir", `{"path":"DIR/a/b"}`, 200)
	call("MakeDir", `{"path":"DIR/a/b"}`, 409)
	os.WriteFile(dir+"/a/f", []byte("four"), 0o640)
	os.Symlink("f", dir+"/a/l")
	if got := call("Stat", `{"path":"DIR/a/f"}`, 200); !strings.Contains(got, `"size":"4"`) || !strings.Contains(got, `"permissions":"-rw-r-----"`) {
		t.Error(got)
	}
	if got := call("Stat", `{"path":"DIR/a/l"}`, 200); !strings.Contains(got, `"symlinkTarget":"`+dir+`/a/f"`) || !strings.Contains(got, "FILE_TYPE_FILE") {
		t.Error(got)
	}
	if got := call("ListDir", `{"path":"DIR","depth":1}`, 200); strings.Contains(got, `"name":"b"`) || !strings.Contains(got, `"name":"a"`) {
		t.Error(got)
	}
	if got := call("ListDir", `{"path":"DIR","depth":2}`, 200); !strings.Contains(got, `"path":"`+dir+`/a/b"`) {
		t.Error(got)
	}
	call("Move", `{"source":"DIR/a/f","destination":"DIR/c/d/f"}`, 200)
	call("Move", `{"source":"DIR/none","destination":"DIR/x"}`, 404)
	call("Remove", `{"path":"DIR/c"}`, 200)
	call("Remove", `{"path":"DIR/c"}`, 200)
	call("Stat", `{"path":"DIR/c"}`, 404)
	call("ListDir", `{"path":"DIR/none"}`, 404)
	call("Stat", `{"path":5}`, 400)
	call("Stat", `{}`, 400)
}

func TestWatchersReportChanges(t *testing.T) {
	p := startPodd(t)
	dir := t.TempDir()
	s := p.open("/filesystem.Filesystem/WatchDir", map[string]any{"path": dir, "recursive": true})
	s.next()
	watch := p.plain("POST", "/filesystem.Filesystem/CreateWatcher", fmt.Sprintf(`{"path":%q}`, dir), 200)
	os.MkdirAll(dir+"/new/deep", 0o755)
	os.WriteFile(dir+"/new/deep/f", []byte("x"), 0o644)
	for seen := ""; !strings.Contains(seen, "new/deep/f "); {
		e, _ := s.next()
		seen += e.Filesystem.Name + " "
	}
	eventually(t, "polling sees it too", func() bool {
		return strings.Contains(p.plain("POST", "/filesystem.Filesystem/GetWatcherEvents", watch, 200), `"new"`)
	})
	p.plain("POST", "/filesystem.Filesystem/RemoveWatcher", watch, 200)
	p.plain("POST", "/filesystem.Filesystem/GetWatcherEvents", watch, 404)
	if r := p.open("/filesystem.Filesystem/WatchDir", map[string]any{"path": "/etc/passwd"}).rest(); r.code != "invalid_argument" {
		t.Errorf("%+v", r)
	}
	if r := p.open("/filesystem.Filesystem/WatchDir", map[string]any{"path": dir + "/none"}).rest(); r.code != "not_found" {
		t.Errorf("%+v", r)
	}
}

func TestTreesArePackedAndUnpackedAsTar(t *testing.T) {
	p := startPodd(t)
	from, to := t.TempDir(), t.TempDir()
	os.MkdirAll(from+"/a", 0o755)
	os.WriteFile(from+"/a/f", bytes.Repeat([]byte("z"), 1<<20), 0o600)
	packed := p.plain("GET", "/agentpod/tar?path="+from, "", 200)
	p.plain("POST", "/agentpod/tar?path="+to+"/sub", packed, 200)
	if text, _ := os.ReadFile(to + "/sub/a/f"); len(text) != 1<<20 {
		t.Fatalf("%d bytes", len(text))
	}
	one := tar.NewReader(strings.NewReader(p.plain("GET", "/agentpod/tar?path="+from+"/a/f", "", 200)))
	if header, err := one.Next(); err != nil || header.Name != "f" {
		t.Fatal(header, err)
	}
	p.plain("GET", "/agentpod/tar?path="+from+"/none", "", 404)
	p.plain("POST", "/agentpod/tar?path="+to, "no tar at all, but long enough to be read as a header"+strings.Repeat("x", 600), 400)
	p.plain("POST", "/agentpod/tar?path="+to, "", 400, "Content-Encoding", "gzip")
}

func TestATunnelCarriesBytesBothWays(t *testing.T) {
	p := startPodd(t)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		conn, err := echo.Accept()
		if err == nil {
			io.Copy(conn, conn)
			conn.Close()
		}
	}()
	port := echo.Addr().(*net.TCPAddr).Port
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /agentpod/tunnel?port=%d HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: agentpod-tunnel\r\n\r\nearly", port)
	time.Sleep(50 * time.Millisecond)
	io.WriteString(conn, "late")
	conn.(*net.UnixConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	if text := string(answer); !strings.HasPrefix(text, "HTTP/1.1 101 ") || !strings.HasSuffix(text, "\r\n\r\nearlylate") {
		t.Fatalf("%q", text)
	}
	p.plain("GET", "/agentpod/tunnel?port=1", "", 502, "Connection", "Upgrade", "Upgrade", "agentpod-tunnel")
	p.plain("GET", "/agentpod/tunnel?port=0", "", 400, "Connection", "Upgrade", "Upgrade", "agentpod-tunnel")
	p.plain("GET", "/agentpod/tunnel?port=1", "", 426)
}

func TestMalformedRequestsGetClearErrors(t *testing.T) {
	p := startPodd(t)
	p.plain("GET", "/health", "", 204)
	p.plain("GET", "/nope", "", 404)
	p.plain("GET", "/process.Process/List", "", 405)
	p.plain("POST", "/process.Process/List", "{}", 415, "Content-Type", "application/proto")
	p.plain("POST", "/process.Process/List", "[", 400)
	p.plain("PUT", "/agentpod/init", `{"unknown":1}`, 400)
	p.plain("PUT", "/agentpod/lease", `{"remainingMs":-1}`, 400)
	p.plain("POST", "/process.Process/SendSignal", `{"process":{"pid":999999},"signal":"SIGNAL_SIGKILL"}`, 404)
	p.plain("POST", "/process.Process/SendSignal", `{"process":{"pid":1},"signal":"SIGNAL_UNSPECIFIED"}`, 400)
	for _, path := range []string{"/metrics", "/agentpod/usage", "/envs"} {
		p.plain("GET", path, "", 200)
	}
}
