package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var binaries string

// TestMain builds the real programs: these tests drive podhost over its socket and look at the host from
// outside.
func TestMain(m *testing.M) {
	// A virtual machine without Go gets them prebuilt.
	if binaries = os.Getenv("AGENTPOD_TEST_PROGRAMS"); binaries != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "podhost-test-")
	if err != nil {
		panic(err)
	}
	binaries = dir
	code := 1
	if err := build("podhost", "podd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(names ...string) error {
	for _, name := range names {
		cmd := exec.Command("go", "build", "-o", filepath.Join(binaries, name), "agentpod/native/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %v\n%s", name, err, output)
		}
	}
	return nil
}

// daemon is a podhost under test.
type daemon struct {
	t    *testing.T
	home string
	cmd  *exec.Cmd
	// flags and env are additional ones for the next run.
	flags, env []string
}

func start(t *testing.T) *daemon {
	t.Helper()
	return startWith(t, daemon{})
}

// startWith starts a podhost with flags and variables.
func startWith(t *testing.T, asked daemon) *daemon {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	// A short path: t.TempDir's may be longer than a socket address.
	home, err := os.MkdirTemp("/tmp", "podhost-home-")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, home: home, flags: asked.flags, env: asked.env}
	d.run()
	t.Cleanup(func() {
		d.destroyAll()
		d.stop()
		os.RemoveAll(home)
	})
	return d
}

func (d *daemon) run() {
	d.t.Helper()
	d.cmd = exec.Command(filepath.Join(binaries, "podhost"), append([]string{"serve", "--home", d.home, "--podd", filepath.Join(binaries, "podd"),
		"--log", filepath.Join(d.home, "log")}, d.flags...)...)
	// A canary that no sandbox may see.
	d.cmd.Env = append(append(os.Environ(), "AGENTPOD_CANARY=canary-secret"), d.env...)
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		d.t.Fatalf("podhost said %q: %v", line, err)
	}
}

func (d *daemon) stop() {
	d.cmd.Process.Signal(os.Interrupt)
	done := make(chan error, 1)
	go func() { done <- d.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		d.cmd.Process.Kill()
		d.t.Error("podhost did not leave")
	}
}

func (d *daemon) kill() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
}

func (d *daemon) destroyAll() {
	c := d.dial()
	defer c.close()
	for _, s := range c.must("sandbox.list", map[string]any{})["sandboxes"].([]any) {
		c.must("sandbox.destroy", map[string]any{"id": s.(map[string]any)["id"]})
	}
}

type client struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
	next   int
	events []map[string]any
}

func (d *daemon) dial() *client {
	d.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(d.home, "run/podhost.sock"))
	if err != nil {
		d.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(60 * time.Second))
	return &client{t: d.t, conn: conn, reader: bufio.NewReaderSize(conn, 2<<20)}
}

func (c *client) close() { c.conn.Close() }

func (c *client) read() map[string]any {
	c.t.Helper()
	line, err := c.reader.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	var message map[string]any
	if err := json.Unmarshal(line, &message); err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	return message
}

// call returns the result, or the error's code.
func (c *client) call(op string, args any) (map[string]any, string) {
	c.t.Helper()
	c.next++
	line, err := json.Marshal(map[string]any{"v": 1, "id": c.next, "op": op, "args": args})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
	for {
		message := c.read()
		if message["event"] != nil {
			c.events = append(c.events, message)
			continue
		}
		if failure, failed := message["error"].(map[string]any); failed {
			return failure, failure["code"].(string)
		}
		return message["result"].(map[string]any), ""
	}
}

func (c *client) must(op string, args any) map[string]any {
	c.t.Helper()
	result, code := c.call(op, args)
	if code != "" {
		c.t.Fatalf("%s: %v", op, result)
	}
	return result
}

func (c *client) create(id string, change map[string]any) map[string]any {
	c.t.Helper()
	args := map[string]any{"id": id, "owner": "test", "hostname": "box", "root": map[string]any{"kind": "host"},
		"resources": map[string]any{"memoryBytes": 256 << 20, "pids": 64, "cpus": 1, "files": 512}, "deadlineMs": 0}
	for key, value := range change {
		args[key] = value
	}
	return c.must("sandbox.create", args)
}

// health asks podd and returns the status line.
func health(t *testing.T, socket string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: podd\r\nConnection: close\r\n\r\n")
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}
