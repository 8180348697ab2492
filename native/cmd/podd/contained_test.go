package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentpod/native/internal/streams/streamstest"
)

const (
	containerToken = "test-token-0123456789-0123456789-abc"
	// The capabilities that a container engine has to grant: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL,
	// SETGID, SETUID.
	containerCapabilities = "+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid"
	containerSet          = "00000000000000fb"
)

// startContained runs podd as a container engine does: PID 1, few capabilities, no inherited socket.
func startContained(t *testing.T, engine ...string) (p *podd, name string) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces with a range of users need root here")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed here")
	}
	dir := t.TempDir()
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(containerToken), 0o600); err != nil {
		t.Fatal(err)
	}
	name = "@agentpod-test-" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)
	setpriv := append([]string{"setpriv", "--inh-caps=-all", "--bounding-set=-all," + containerCapabilities}, engine...)
	program := []string{built(t), "--streams", name, "--token-file", tokenFile}
	script := "mount -t proc proc /proc && exec " + strings.Join(append(setpriv, program...), " ")
	command := exec.Command("/bin/sh", "-c", script)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	// The network is shared, because an abstract socket belongs to it and the test connects from here.
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
	}
	var log bytes.Buffer
	command.Env, command.Stderr = []string{"PATH=" + os.Getenv("PATH"), "CANARY=secret"}, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if t.Failed() {
			t.Logf("podd ended with %v and said: %s", command.ProcessState, log.String())
		}
	})
	p = &podd{t: t, command: command, client: containedClient(t, name)}
	p.plain("PUT", "/agentpod/init", `{"defaultUser":"root"}`, 200)
	if _, err := os.Lstat(tokenFile); !os.IsNotExist(err) {
		t.Error("the token is still there")
	}
	return p, name
}

func containedClient(t *testing.T, name string) *http.Client {
	t.Helper()
	var conn net.Conn
	eventually(t, "podd listens", func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", name)
		return err == nil
	})
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, "agentpod "+containerToken+"\n")
	session, err := streamstest.Client(conn)
	if err != nil {
		t.Fatal(err)
	}
	open := func(context.Context, string, string) (net.Conn, error) { return streamstest.Open(session, "api") }
	return &http.Client{Transport: &http.Transport{DialContext: open}}
}

// status is a payload's capability sets and flags.
func (p *podd) status(who string) map[string]string {
	p.t.Helper()
	r := p.sh("cat /proc/self/status", as(who)...)
	fields := map[string]string{}
	for _, line := range strings.Split(r.stdout, "\n") {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	return fields
}

func TestInAContainerAnOrdinaryUserHasNoCapabilitiesAndRootHasFew(t *testing.T) {
	for _, engine := range [][]string{nil, {"--no-new-privs"}} {
		p, _ := startContained(t, engine...)
		const none, becoming = "0000000000000000", "00000000000000c0"
		want := map[bool]map[string]string{
			false: {"root": becoming, user: none},
			true:  {"root": containerSet, user: none},
		}
		for _, sudo := range []bool{false, true} {
			p.plain("PUT", "/agentpod/init", fmt.Sprintf(`{"sudo":%v}`, sudo), 200)
			for who, set := range want[sudo] {
				got := p.status(who)
				for _, field := range []string{"CapPrm", "CapEff"} {
					if got[field] != set {
						t.Errorf("%s of %s, sudo %v: %s, want %s", field, who, sudo, got[field], set)
					}
				}
				if got["CapInh"] != none || got["CapAmb"] != none || got["NoNewPrivs"] != "1" || got["Seccomp"] != "2" {
					t.Errorf("%s, sudo %v: %v", who, sudo, got)
				}
			}
		}
		// A setuid-root program gives an ordinary user nothing.
		if r := p.sh("cp /bin/sh /tmp/agentpod-test-sh && chmod 4755 /tmp/agentpod-test-sh"); r.exitCode != 0 {
			t.Fatalf("%+v", r)
		}
		r := p.sh("/tmp/agentpod-test-sh -p -c 'id -u; grep CapEff /proc/self/status'; rm -f /tmp/agentpod-test-sh", as(user)...)
		p.sh("rm -f /tmp/agentpod-test-sh")
		if strings.HasPrefix(r.stdout, "0\n") || !strings.Contains(r.stdout, "CapEff:\t"+none) {
			t.Errorf("%+v", r)
		}
	}
}

func TestInAContainerRootCanInstallAndSeesNothingOfPodd(t *testing.T) {
	p, _ := startContained(t)
	p.plain("PUT", "/agentpod/init", `{"sudo":true}`, 200)
	dir := t.TempDir()
	// What dpkg does: change owners, set setgid bits, and access files of other users.
	script := fmt.Sprintf("set -e; cd %s; mkdir d; touch d/f; chown %s:tty d/f; chmod 2755 d/f; stat -c %%U:%%G:%%a d/f; "+
		"su %s -s /bin/sh -c 'id -un'", dir, user, user)
	if r := p.sh(script); r.stdout != user+":tty:2755\n"+user+"\n" {
		t.Errorf("%+v", r)
	}
	for _, file := range []string{"environ", "maps", "mem", "fd", "exe"} {
		r := p.sh("ls -l /proc/1/" + file + " && head -c 1 /proc/1/" + file + "; cat /proc/1/environ; ls /proc/1/fd/ | head -1")
		if strings.Contains(r.stdout, "CANARY") || !strings.Contains(r.stderr, "denied") {
			t.Errorf("%s: %+v", file, r)
		}
	}
	if r := p.sh("unshare -U true || unshare -m true || mount -t tmpfs none /mnt || echo none"); r.stdout != "none\n" {
		t.Errorf("%+v", r)
	}
}

func TestInAContainerAnOrdinaryUsersProgramCannotBlockTheSocket(t *testing.T) {
	p, name := startContained(t)
	// A connection that sends nothing may stay for five seconds. One of an ordinary user is closed at once.
	wait := func(who string) string {
		return p.sh("sleep 2 | timeout 1 "+built(t)+" connect "+name+"; echo $?", as(who)...).stdout
	}
	const closed, waited = "0\n", "124\n"
	if got := wait(user); got != closed {
		t.Errorf("as %s: %q", user, got)
	}
	if got := wait("root"); got != waited {
		t.Errorf("as root: %q", got)
	}
}
