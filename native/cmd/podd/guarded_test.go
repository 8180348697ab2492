package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// user is an account that every Linux has and that is not root.
const user = "nobody"

func TestAPayloadHasNoCapabilitiesAndNoDescriptors(t *testing.T) {
	p := startGuarded(t)
	for _, who := range []string{"root", user} {
		// podd raises the score right after the start.
		r := p.sh("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status; ls /proc/self/fd; cat /proc/1/environ; unshare -U true; "+
			"n=0; while [ $n -lt 500 ] && [ $(cat /proc/$$/oom_score_adj) != 500 ]; do n=$((n+1)); sleep 0.01; done; cat /proc/$$/oom_score_adj", as(who)...)
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if !strings.Contains(r.stdout, set+":\t0000000000000000") {
				t.Errorf("%s as %s: %s", set, who, r.stdout)
			}
		}
		for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "\n0\n1\n2\n3\n500\n"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("as %s %q is missing: %s", who, want, r.stdout)
			}
		}
		if strings.Contains(r.stdout, "CANARY") || !strings.Contains(r.stderr, "denied") || !strings.Contains(r.stderr, "unshare") {
			t.Errorf("as %s: %s %s", who, r.stdout, r.stderr)
		}
	}
}

func TestASudoEnvironmentGetsTheDocumentedSet(t *testing.T) {
	p := startGuarded(t)
	p.plain("PUT", "/agentpod/init", `{"sudo":true}`, 200)
	r := p.sh("grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status")
	for _, want := range []string{"CapEff:\t00000000800404fb", "CapBnd:\t00000000800404fb", "NoNewPrivs:\t0", "Seccomp:\t2"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s is missing: %s", want, r.stdout)
		}
	}
	if r := p.sh("grep CapEff /proc/self/status", as(user)...); !strings.Contains(r.stdout, "0000000000000000") {
		t.Error(r.stdout)
	}
}

func TestNoSignalFromInsideEndsPodd(t *testing.T) {
	p := startGuarded(t)
	p.plain("PUT", "/agentpod/init", `{"sudo":true}`, 200)
	// Many at once: while podd handles one signal it blocks the others, and the kernel treats a blocked
	// signal differently.
	p.sh("for i in $(seq 1 20); do for s in $(seq 1 64); do kill -$s 1; done & done; wait")
	p.plain("GET", "/health", "", 204)
	if r := p.sh("echo alive"); r.stdout != "alive\n" {
		t.Fatalf("%+v", r)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	p := startGuarded(t)
	p.sh("i=0; while [ $i -lt 2000 ]; do (true &) ; i=$((i+1)); done")
	eventually(t, "no zombie is left", func() bool {
		return p.sh("grep -l '^State:.Z' /proc/[0-9]*/status | wc -l").stdout == "0\n"
	})
}

// No cgroup limits this sandbox, so the tree limits itself; test/attack has the real fork bomb.
func TestAKillEndsTheWholeProcessTree(t *testing.T) {
	p := startGuarded(t)
	s := p.start(command("sh", "-c", "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 60; }; f 6 & sleep 60"), append(as(user), "Connect-Timeout-Ms", "400")...)
	s.rest()
	eventually(t, "the tree is gone", func() bool {
		count, err := strconv.Atoi(strings.TrimSpace(p.sh("ls -d /proc/[0-9]* | wc -l").stdout))
		return err == nil && count < 6
	})
}

func TestFileOperationsUseTheUsersRights(t *testing.T) {
	p := startGuarded(t)
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	open := dir + "/open"
	os.Mkdir(open, 0o777)
	os.Chmod(open, 0o777)
	for up := dir; up != "/"; up = up[:strings.LastIndex(up, "/")] {
		if os.Chmod(up, 0o755); strings.Count(up, "/") <= 2 {
			break
		}
	}
	octets := append(as(user), "Content-Type", "application/octet-stream")
	p.plain("POST", "/files?path="+open+"/a/f", "x", 200, octets...)
	if r := p.sh(fmt.Sprintf("stat -c %%U %s/a %s/a/f", open, open)); r.stdout != user+"\n"+user+"\n" {
		t.Errorf("%+v", r)
	}
	p.plain("POST", "/files?path="+dir+"/no", "x", 403, octets...)
	p.plain("POST", "/files?path="+dir+"/yes", "x", 200, "Content-Type", "application/octet-stream")
	p.sh("chmod 600 " + dir + "/yes")
	p.plain("GET", "/files?path="+dir+"/yes", "", 403, as(user)...)
	p.plain("POST", "/filesystem.Filesystem/Remove", fmt.Sprintf(`{"path":%q}`, dir+"/yes"), 403, as(user)...)
}

func TestAPeerInsideTheSandboxIsRefused(t *testing.T) {
	p := startGuarded(t)
	// The socket's directory is visible here because the test shares its root with podd.
	r := p.sh("python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('" + p.socket + "'); s.send(b'GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); print(len(s.recv(100)))\" 2>&1")
	if strings.Contains(r.stdout, "not found") {
		t.Skip("python3 is not installed here")
	}
	if r.stdout != "0\n" && !strings.Contains(r.stdout, "Error") {
		t.Fatalf("%+v", r)
	}
}
