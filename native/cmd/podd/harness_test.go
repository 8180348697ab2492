package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const asPodd = "AGENTPOD_TEST_AS_PODD"

// TestMain runs this binary again as podd itself.
func TestMain(m *testing.M) {
	if os.Getenv(asPodd) != "" {
		main()
		return
	}
	code := m.Run()
	if buildPath != "" {
		os.RemoveAll(filepath.Dir(buildPath))
	}
	os.Exit(code)
}

// podd is one running daemon and a client of it.
type podd struct {
	t       *testing.T
	socket  string
	client  *http.Client
	command *exec.Cmd
}

// startPodd runs podd without guards, as the user who runs the tests.
func startPodd(t *testing.T) *podd {
	return launch(t, exec.Command(self(t), "--unguarded"))
}

// startGuarded runs podd as PID 1 of its own namespaces, with all guards.
func startGuarded(t *testing.T) *podd {
	if os.Geteuid() != 0 {
		t.Skip("namespaces with a range of users need root here")
	}
	command := exec.Command("/bin/sh", "-c", "mount -t proc proc /proc && exec "+built(t))
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
	}
	return launch(t, command)
}

func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built is podd as it ships: static, because a process with C threads cannot change all of them at once.
func built(t *testing.T) string {
	buildOnce.Do(func() {
		dir, err := os.MkdirTemp("", "podd")
		if err != nil {
			t.Fatal(err)
		}
		buildPath = filepath.Join(dir, "podd")
		os.Chmod(dir, 0o755)
		build := exec.Command("go", "build", "-o", buildPath, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	return buildPath
}

var (
	buildOnce sync.Once
	buildPath string
)

func launch(t *testing.T, command *exec.Cmd) *podd {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	var log bytes.Buffer
	command.Env = []string{asPodd + "=1", "CANARY=secret"}
	command.ExtraFiles = []*os.File{file}
	command.Stderr = &log
	err = command.Start()
	file.Close() // from here on only podd has the socket, so its end is visible
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }
	p := &podd{t: t, socket: socket, command: command, client: &http.Client{Transport: &http.Transport{DialContext: dial}}}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if t.Failed() {
			t.Logf("podd ended with %v and said: %s", command.ProcessState, log.String())
		}
	})
	p.plain("PUT", "/agentpod/init", `{"defaultUser":"root"}`, 200)
	return p
}

// plain makes one call and expects a status.
func (p *podd) plain(method, path, body string, status int, headers ...string) string {
	p.t.Helper()
	request, _ := http.NewRequest(method, "http://podd"+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		p.t.Fatalf("%s %s: %d %s %v, want %d", method, path, response.StatusCode, text, err, status)
	}
	return string(text)
}

// event has the fields of all events of the streams.
type event struct {
	Event struct {
		Start *struct{ Pid int }
		Data  *struct{ Stdout, Stderr, Pty []byte }
		End   *struct {
			ExitCode       int
			Exited         bool
			Status, Signal string
		}
		Gap *struct{ From, To string }
	}
	Filesystem *struct{ Name, Type string }
	Error      *struct{ Code, Message string }
}

// stream is an open answer stream.
type stream struct {
	t    *testing.T
	body io.ReadCloser
}

func (p *podd) open(path string, message any, headers ...string) *stream {
	p.t.Helper()
	text, _ := json.Marshal(message)
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
	request, _ := http.NewRequest("POST", "http://podd"+path, bytes.NewReader(frame))
	request.Header.Set("Content-Type", "application/connect+json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := p.client.Do(request)
	if err != nil || response.StatusCode != 200 {
		p.t.Fatalf("%s: %v %v", path, response, err)
	}
	p.t.Cleanup(func() { response.Body.Close() })
	return &stream{p.t, response.Body}
}

// next reads one event; last is true for the frame that ends the stream.
func (s *stream) next() (e event, last bool) {
	s.t.Helper()
	var header [5]byte
	if _, err := io.ReadFull(s.body, header[:]); err != nil {
		s.t.Fatalf("the stream was cut: %v", err)
	}
	text := make([]byte, binary.BigEndian.Uint32(header[1:]))
	io.ReadFull(s.body, text)
	if err := json.Unmarshal(text, &e); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	return e, header[0] == 2
}

// result is a stream read to its end.
type result struct {
	pid                 int
	stdout, stderr, pty string
	exitCode            int
	signal, code        string
	ended               bool
	gap                 string
}

func (s *stream) rest() (r result) {
	s.t.Helper()
	for {
		e, last := s.next()
		switch {
		case last:
			if e.Error != nil {
				r.code = e.Error.Code
			}
			return r
		case e.Event.Start != nil:
			r.pid = e.Event.Start.Pid
		case e.Event.Data != nil:
			r.stdout += string(e.Event.Data.Stdout)
			r.stderr += string(e.Event.Data.Stderr)
			r.pty += string(e.Event.Data.Pty)
		case e.Event.Gap != nil:
			r.gap = e.Event.Gap.From + "-" + e.Event.Gap.To
		case e.Event.End != nil:
			r.ended, r.exitCode, r.signal = true, e.Event.End.ExitCode, e.Event.End.Signal
		}
	}
}

func command(argv ...string) map[string]any {
	return map[string]any{"process": map[string]any{"cmd": argv[0], "args": argv[1:]}, "stdin": false}
}

func (p *podd) start(message map[string]any, headers ...string) *stream {
	return p.open("/process.Process/Start", message, headers...)
}

func (p *podd) sh(script string, headers ...string) result {
	p.t.Helper()
	return p.start(command("sh", "-c", script), headers...).rest()
}

func as(user string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"))}
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if check() {
			return
		}
	}
	t.Fatalf("%s: not within 5 s", what)
}
