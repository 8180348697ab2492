package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheOutputAndExitOfACommandAreStreamed(t *testing.T) {
	p := startPodd(t)
	r := p.sh("echo out; echo err >&2; exit 3")
	if r.stdout != "out\n" || r.stderr != "err\n" || r.exitCode != 3 || r.signal != "" {
		t.Fatalf("%+v", r)
	}
	if r := p.sh("kill -9 $$"); r.exitCode != -1 || r.signal != "SIGKILL" {
		t.Fatalf("%+v", r)
	}
	for argv, code := range map[string]string{"no-such-command": "not_found", "/etc/passwd": "permission_denied", "/nope/x": "not_found", "": "invalid_argument"} {
		if r := p.start(command(argv)).rest(); r.code != code {
			t.Errorf("%q: %+v", argv, r)
		}
	}
}

func TestABackgroundChildDoesNotKeepTheStreamOpen(t *testing.T) {
	p := startPodd(t)
	begin := time.Now()
	r := p.sh("sleep 60 & echo $!; seq 20000")
	if took := time.Since(begin); took > 2*time.Second || !strings.HasSuffix(r.stdout, "\n20000\n") {
		t.Fatalf("%v, %d bytes", took, len(r.stdout))
	}
	pid, _ := strconv.Atoi(strings.SplitN(r.stdout, "\n", 2)[0])
	syscall.Kill(pid, syscall.SIGKILL)
}

func TestTheEnvironmentIsAnAllowList(t *testing.T) {
	p := startPodd(t)
	p.plain("PUT", "/agentpod/init", `{"env":{"FROM_INIT":"1","BOTH":"init"}}`, 200)
	message := command("env")
	message["process"].(map[string]any)["envs"] = map[string]string{"BOTH": "request"}
	r := p.start(message).rest()
	for _, want := range []string{"FROM_INIT=1", "BOTH=request", "HOME=/root", "USER=root", "PATH=/"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s is missing in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "CANARY") {
		t.Error("podd's own environment leaks")
	}
}

func TestAStartsTimeoutKillsItsWholeTree(t *testing.T) {
	p := startPodd(t)
	s := p.start(command("sh", "-c", "setsid sleep 77 & sleep 77 & echo $!; wait"), "Connect-Timeout-Ms", "300")
	r := s.rest()
	if r.code != "deadline_exceeded" || r.ended {
		t.Fatalf("%+v", r)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(r.stdout))
	eventually(t, "the children die", func() bool { return syscall.Kill(pid, 0) != nil })
}

func TestAClientThatReconnectsLosesNoOutput(t *testing.T) {
	p := startPodd(t)
	message := command("sh", "-c", "echo before; read x; seq 300000; echo after")
	message["tag"], message["stdin"] = "job", true
	s := p.start(message)
	s.next()
	s.next()
	s.body.Close()
	p.plain("POST", "/process.Process/SendInput", `{"process":{"tag":"job"},"input":{"stdin":"Cg=="}}`, 200)
	r := p.open("/agentpod/attach", map[string]any{"process": map[string]any{"tag": "job"}, "offset": "7"}).rest()
	if !strings.HasPrefix(r.stdout, "1\n2\n") || !strings.HasSuffix(r.stdout, "300000\nafter\n") || !r.ended {
		t.Fatalf("%.20q ... %d bytes", r.stdout, len(r.stdout))
	}
	if r := p.start(message).rest(); r.code != "already_exists" {
		t.Fatalf("a tag in use: %+v", r)
	}
	if r := p.open("/agentpod/attach", map[string]any{"process": map[string]any{"tag": "other"}}).rest(); r.code != "not_found" {
		t.Fatalf("%+v", r)
	}
	if all := p.plain("GET", "/agentpod/processes", "", 200); !strings.Contains(all, `"tag":"job"`) || !strings.Contains(all, `"exitCode":0`) {
		t.Fatal(all)
	}
}

func TestASlowReaderBlocksTheProcessAndDoesNotFillPoddsMemory(t *testing.T) {
	p := startPodd(t)
	s := p.start(command("sh", "-c", "yes | head -c 400000000; echo done >&2"))
	e, _ := s.next()
	time.Sleep(1500 * time.Millisecond)
	if rss := residentOf(t, p.command.Process.Pid); rss > 50<<20 {
		t.Errorf("podd holds %d MiB", rss>>20)
	}
	p.plain("POST", "/process.Process/SendSignal", fmt.Sprintf(`{"process":{"pid":%d},"signal":"SIGNAL_SIGKILL"}`, e.Event.Start.Pid), 200)
	s.body.Close()
}

func residentOf(t *testing.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize()
}

func TestATerminalCanBeResizedWrittenToAndHungUp(t *testing.T) {
	p := startPodd(t)
	message := command("sh", "-c", "tty; read a; stty size; echo got $a; exit 5")
	message["pty"] = map[string]any{"size": map[string]int{"cols": 100, "rows": 30}}
	s := p.start(message)
	e, _ := s.next()
	pid := e.Event.Start.Pid
	p.plain("POST", "/process.Process/Update", fmt.Sprintf(`{"process":{"pid":%d},"pty":{"size":{"cols":120,"rows":40}}}`, pid), 200)
	input := base64.StdEncoding.EncodeToString([]byte("word\n"))
	p.plain("POST", "/process.Process/SendInput", fmt.Sprintf(`{"process":{"pid":%d},"input":{"pty":%q}}`, pid, input), 200)
	r := s.rest()
	if !strings.Contains(r.pty, "/dev/pts/") || !strings.Contains(r.pty, "40 120") || !strings.Contains(r.pty, "got word") || r.exitCode != 5 {
		t.Fatalf("%+v", r)
	}
}

func TestInputCanBeClosedAndDoesNotBlockForEver(t *testing.T) {
	p := startPodd(t)
	message := command("cat")
	delete(message, "stdin")
	s := p.start(message)
	e, _ := s.next()
	target := fmt.Sprintf(`{"process":{"pid":%d}`, e.Event.Start.Pid)
	p.plain("POST", "/process.Process/SendInput", target+`,"input":{"stdin":"aGk="}}`, 200)
	p.plain("POST", "/process.Process/CloseStdin", target+"}", 200)
	if r := s.rest(); r.stdout != "hi" || r.exitCode != 0 {
		t.Fatalf("%+v", r)
	}
	message = command("sleep", "60")
	message["stdin"] = true
	e, _ = p.start(message).next()
	target = fmt.Sprintf(`{"process":{"pid":%d}`, e.Event.Start.Pid)
	big := base64.StdEncoding.EncodeToString(make([]byte, 1<<20))
	p.plain("POST", "/process.Process/SendInput", target+`,"input":{"stdin":"`+big+`"}}`, 499, "Connect-Timeout-Ms", "200")
	p.plain("POST", "/process.Process/SendSignal", target+`,"signal":"SIGNAL_SIGTERM"}`, 200)
}

func TestRepeatedInputArrivesOnce(t *testing.T) {
	p := startPodd(t)
	message := command("cat")
	message["tag"], message["stdin"] = "job", true
	s := p.start(message)
	s.next()
	send := func(offset, data string, status int) string {
		t.Helper()
		return p.plain("POST", "/agentpod/input?tag=job&offset="+offset, data, status)
	}
	for _, one := range []struct{ offset, data, taken string }{
		{"0", "one\n", "4"}, {"0", "one\n", "4"}, {"0", "one\ntwo\n", "8"}, {"4", "two\n", "8"}, {"6", "", "8"}, {"7", "\nthree\n", "14"}, {"14", "", "14"},
	} {
		if answer := send(one.offset, one.data, 200); strings.TrimSpace(answer) != `{"stdinBytes":"`+one.taken+`"}` {
			t.Errorf("%+v: %s", one, answer)
		}
	}
	p.plain("POST", "/process.Process/SendInput", `{"process":{"tag":"job"},"input":{"stdin":"aGk="}}`, 200)
	for offset, code := range map[string]string{"17": "failed_precondition", "-1": "invalid_argument", "": "invalid_argument", "1e3": "invalid_argument", "99999999999999999999": "invalid_argument"} {
		if answer := send(offset, "x", 400); !strings.Contains(answer, `"`+code+`"`) {
			t.Errorf("offset %q: %s", offset, answer)
		}
	}
	send("16", strings.Repeat("x", 4<<20+1), 413)
	p.plain("POST", "/agentpod/input?offset=0", "x", 400)
	p.plain("POST", "/agentpod/input?tag=other&offset=0", "x", 404)
	if all := p.plain("GET", "/agentpod/processes", "", 200); !strings.Contains(all, `"stdinBytes":"16"`) {
		t.Error(all)
	}
	for tag, want := range map[string]bool{"job": true, "other": false} {
		if found := p.plain("GET", "/agentpod/processes?tag="+tag, "", 200); strings.Contains(found, `"job"`) != want {
			t.Errorf("%s: %s", tag, found)
		}
	}
	p.plain("POST", "/process.Process/CloseStdin", `{"process":{"tag":"job"}}`, 200)
	if r := s.rest(); r.stdout != "one\ntwo\nthree\nhi" {
		t.Fatalf("%+v", r)
	}
	// Bytes that it has already are confirmed; no more are accepted.
	send("0", "one\n", 200)
	send("16", "x", 400)
	if r := p.open("/agentpod/attach", map[string]any{"process": map[string]any{"tag": "job"}, "stdout": "8"}).rest(); r.stdout != "three\nhi" {
		t.Fatalf("%+v", r)
	}
	if r := p.open("/agentpod/attach", map[string]any{"process": map[string]any{"tag": "job"}, "stdout": "17"}).rest(); r.code != "invalid_argument" {
		t.Fatalf("%+v", r)
	}
}

// A pipe holds 64 KiB: of a larger canceled write, the bytes that the process received are counted.
func TestCanceledInputIsCounted(t *testing.T) {
	p := startPodd(t)
	message := command("sh", "-c", "while ! test -e $0; do sleep 0.05; done; exec cat", t.TempDir()+"/go")
	message["tag"], message["stdin"] = "slow", true
	file := message["process"].(map[string]any)["args"].([]string)[2]
	s := p.start(message)
	s.next()
	data := strings.Repeat("0123456789abcdef", 1<<14)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", "http://podd/agentpod/input?tag=slow&offset=0", strings.NewReader(data))
	if response, err := p.client.Do(request); err == nil {
		t.Fatalf("%d", response.StatusCode)
	}
	// The next writer waits until the one before has finished.
	os.WriteFile(file, nil, 0o600)
	if answer := p.plain("POST", "/agentpod/input?tag=slow&offset=0", data, 200); !strings.Contains(answer, fmt.Sprint(len(data))) {
		t.Error(answer)
	}
	p.plain("POST", "/process.Process/CloseStdin", `{"process":{"tag":"slow"}}`, 200)
	if r := s.rest(); r.stdout != data {
		t.Fatalf("%d bytes of %d", len(r.stdout), len(data))
	}
}

func TestWorkingDirectoriesAreChecked(t *testing.T) {
	p := startPodd(t)
	for dir, want := range map[string]string{
		"/usr": "/usr\n", "~": "/root\n", "/nope": "invalid_argument", "/etc/passwd": "invalid_argument",
		"/proc/self/fd": "invalid_argument", "/proc/self/cwd": "invalid_argument", "/proc/self/root": "invalid_argument",
	} {
		message := command("pwd")
		message["process"].(map[string]any)["cwd"] = dir
		if r := p.start(message).rest(); r.stdout != want && r.code != want {
			t.Errorf("%s: %+v", dir, r)
		}
	}
	if r := p.sh("true", as("nosuchuser")...); r.code != "unauthenticated" {
		t.Errorf("%+v", r)
	}
}

func TestALeaseEndsPodd(t *testing.T) {
	for name, terms := range map[string]string{"deadline": `{"remainingMs":200,"idleMs":0}`, "idle": `{"remainingMs":0,"idleMs":200}`} {
		t.Run(name, func(t *testing.T) {
			p := startPodd(t)
			e, _ := p.start(command("sleep", "60")).next()
			p.client.CloseIdleConnections()
			if name == "idle" {
				p = startPodd(t) // an open stream is not idle
			}
			p.plain("PUT", "/agentpod/lease", terms, 200)
			state, err := p.command.Process.Wait()
			if err != nil || state.ExitCode() != exitExpired {
				t.Fatalf("%v %v", state, err)
			}
			if name == "deadline" {
				eventually(t, "the payload dies", func() bool { return syscall.Kill(e.Event.Start.Pid, 0) != nil })
			}
		})
	}
	p := startPodd(t)
	s := p.start(command("sleep", "1"))
	p.plain("PUT", "/agentpod/lease", `{"remainingMs":0,"idleMs":300}`, 200)
	if r := s.rest(); !r.ended {
		t.Fatal("an idle lease cut an open stream")
	}
}
