package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// egress plays the egress process: it connects, and answers each line that it receives with "hello ", the
// line and what it read before the end.
func egress(t *testing.T, made map[string]any, links int) {
	t.Helper()
	for i := 0; i < links; i++ {
		conn, err := net.Dial("unix", made["out"].(string))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		t.Cleanup(func() { conn.Close() })
		go func() {
			reader := bufio.NewReader(conn)
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			said, _ := reader.ReadString('\n')
			fmt.Fprintf(conn, "hello %s %s", strings.TrimSpace(line), said)
			conn.Close()
		}()
	}
}

// dialInside makes a program inside connect, send a word and print the answer.
func dialInside(t *testing.T, made map[string]any, host string, port int) string {
	t.Helper()
	output, _ := sh(t, made, fmt.Sprintf("exec 3<>/dev/tcp/%s/%d && echo word >&3 && cat <&3", host, port))
	return strings.TrimSpace(output)
}

func needsTransparency(t *testing.T, c *client) {
	t.Helper()
	if network := c.must("hello", map[string]any{})["network"].(map[string]any); network["level"] != "transparent" {
		t.Skipf("needs nftables: %v", network)
	}
}

// leadsOut checks one sandbox from end to end.
func leadsOut(t *testing.T, made map[string]any) {
	t.Helper()
	if level := made["network"].(map[string]any)["level"]; level != "transparent" {
		t.Fatalf("the network is %v", made["network"])
	}
	egress(t, made, 3)
	output, code := sh(t, made, "getent hosts example.com")
	if code != 0 || !strings.HasPrefix(output, "198.18.") || !strings.Contains(output, "example.com") {
		t.Errorf("getent: %d %s", code, output)
	}
	for _, try := range []struct {
		host   string
		port   int
		header string
	}{
		{"example.com", 443, `{"v":1,"kind":"direct","name":"example.com","port":443}`},
		{"192.0.2.7", 22, `{"v":1,"kind":"direct","address":"192.0.2.7","port":22}`},
		{"127.0.0.1", 61080, `{"v":1,"kind":"proxy"}`},
	} {
		if answer := dialInside(t, made, try.host, try.port); answer != "hello "+try.header+" word" {
			t.Errorf("%s:%d: %s", try.host, try.port, answer)
		}
	}
	if output, code := sh(t, made, "exec 3<>/dev/tcp/127.0.0.1/9"); code == 0 || !strings.Contains(output, "refused") {
		t.Errorf("a closed port inside: %d %s", code, output)
	}
	if output, code := sh(t, made, "exec 3<>/dev/tcp/2001:db8::1/443"); code == 0 || !strings.Contains(output, "unreachable") {
		t.Errorf("IPv6: %d %s", code, output)
	}
}

func TestOutgoingConnectionsReachTheEgressProcess(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	made := c.create("away1", nil)
	leadsOut(t, made)
	if seen := c.must("sandbox.inspect", id("away1")); seen["out"] != made["out"] || fmt.Sprint(seen["network"]) != fmt.Sprint(made["network"]) {
		t.Errorf("inspect: %v", seen)
	}
	if output, _ := sh(t, made, "cat /etc/resolv.conf; ls /sys/class/net"); output != "nameserver 127.0.0.53\noptions timeout:2 attempts:1\nlo\n" {
		t.Error(output)
	}
	// Another resolver was put there; a start restores this one.
	put(t, inside(made, "/etc/resolv.conf"), "nameserver 8.8.8.8\n")
	c.must("sandbox.stop", id("away1"))
	if _, err := os.Lstat(made["out"].(string)); !os.IsNotExist(err) {
		t.Errorf("after a stop: %v", err)
	}
	if seen := c.must("sandbox.inspect", id("away1")); seen["out"] != "" || seen["network"].(map[string]any)["level"] != "none" {
		t.Errorf("inspect of a stopped one: %v", seen)
	}
	made = c.must("sandbox.start", c.args("away1", nil))
	leadsOut(t, made)
	if text(t, inside(made, "/etc/resolv.conf")) != "nameserver 127.0.0.53\noptions timeout:2 attempts:1\n" {
		t.Error("resolv.conf is as it was left")
	}
	c.close()
	d.kill()
	d.run()
	c = d.dial()
	leadsOut(t, made)
	if seen := c.must("sandbox.list", map[string]any{})["sandboxes"].([]any)[0].(map[string]any); seen["out"] != made["out"] {
		t.Errorf("list: %v", seen)
	}
	c.must("sandbox.destroy", id("away1"))
	d.nothingLeft()
}

func TestAForkHasItsOwnEgress(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	c.create("away1", nil)
	c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "away1"})
	leadsOut(t, c.create("away2", map[string]any{"snapshot": "shot1"}))
}

func TestASandboxInAShellHasEgress(t *testing.T) {
	d := start(t)
	d.stop()
	d.flags = []string{"--shells", "2"}
	d.run()
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	c.create("first", nil)
	ready := d.awaitShells(2)
	made := c.create("away1", nil)
	if !ready[int(made["pid"].(float64))] {
		t.Fatalf("not in a shell that was ready: %v, %v", made["pid"], ready)
	}
	leadsOut(t, made)
	d.destroyAll()
	if _, err := os.Lstat(made["out"].(string)); !os.IsNotExist(err) {
		t.Errorf("after a destroy: %v", err)
	}
	c.close()
	d.stop()
	if left, _ := os.ReadDir(filepath.Join(d.home, "run/s")); len(left) > 0 {
		t.Errorf("after podhost left: %v", left)
	}
	d.run()
}

func TestWithoutTheEgressProcessConnectionsFail(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	made := c.create("alone", nil)
	begin := time.Now()
	if answer := dialInside(t, made, "example.com", 443); strings.Contains(answer, "hello") || !strings.Contains(answer, "reset") {
		t.Errorf("the answer is %q", answer)
	}
	if took := time.Since(begin); took < 4*time.Second || took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	// It still waits for a connection that comes in time.
	late := make(chan string, 1)
	go func() { late <- dialInside(t, made, "example.com", 443) }()
	time.Sleep(500 * time.Millisecond)
	egress(t, made, 1)
	if answer := <-late; !strings.HasPrefix(answer, "hello ") {
		t.Errorf("the answer is %q", answer)
	}
}

func TestAPauseDoesNotBreakEgress(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	made := c.create("calm1", nil)
	egress(t, made, 2)
	health(t, made["socket"].(string))
	c.must("sandbox.pause", id("calm1"))
	time.Sleep(200 * time.Millisecond)
	c.must("sandbox.resume", map[string]any{"id": "calm1", "deadlineMs": 0})
	if answer := dialInside(t, made, "example.com", 443); !strings.HasPrefix(answer, "hello ") {
		t.Errorf("the answer is %q", answer)
	}
}

func TestTheProbeDetectsARedirectedConnection(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	for _, found := range c.must("probe", map[string]any{})["checks"].([]any) {
		if check := found.(map[string]any); check["name"] == "network" {
			if check["ok"] != true || check["required"] != false {
				t.Errorf("%v", check)
			}
			return
		}
	}
	t.Error("there is no check of the network")
}

// TestAProgramInsideCannotConnectAsTheEgressProcess is case CP-20 for the egress: a program that has the
// socket's path is refused.
func TestAProgramInsideCannotConnectAsTheEgressProcess(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	needsTransparency(t, c)
	made := c.create("away1", nil)
	health(t, made["socket"].(string))
	const connect = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(1); print(len(s.recv(1)))"
	for name, try := range map[string]struct {
		argv   []string
		closed bool
	}{
		"inside":  {[]string{"nsenter", "-t", fmt.Sprint(int(made["pid"].(float64))), "-p", "python3", "-c", connect, made["out"].(string)}, true},
		"outside": {[]string{"python3", "-c", connect, made["out"].(string)}, false},
	} {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("needs python3")
		}
		output, err := exec.Command(try.argv[0], try.argv[1:]...).CombinedOutput()
		if closed := err == nil && string(output) == "0\n"; closed != try.closed || !closed && !strings.Contains(string(output), "timed out") {
			t.Errorf("%s: %s %v", name, output, err)
		}
	}
}

func TestTrustedCertificatesAreInstalledWhenInitAnswers(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("sure1", nil)
	authority := newAuthority(t)
	began := time.Now()
	initialize(t, made, `{}`)
	plain := time.Since(began)
	began = time.Now()
	initialize(t, made, fmt.Sprintf(`{"trust":{"ca":%q,"roots":""}}`, authority))
	t.Logf("init took %v, with trust %v", plain, time.Since(began))
	for _, path := range []string{"/run/agentpod/ca.pem", "/run/agentpod/ca-bundle.pem", "/etc/ssl/certs/ca-certificates.crt"} {
		if !strings.HasSuffix(text(t, inside(made, path)), authority) {
			t.Errorf("%s does not end with the authority", path)
		}
	}
	if output, code := sh(t, made, "stat -c '%U %a' /run/agentpod /run/agentpod/ca.pem /etc/ssl/certs/ca-certificates.crt"); code != 0 ||
		output != "root 755\nroot 644\nroot 644\n" {
		t.Errorf("%d %s", code, output)
	}
	for name, body := range map[string]string{
		"a key": `{"trust":{"ca":"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"}}`, "another field": `{"trust":{"ca":"","more":1}}`,
	} {
		request, _ := http.NewRequest("PUT", "http://podd/agentpod/init", strings.NewReader(body))
		response, err := poddClient(made["socket"].(string)).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 400 {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
	}
}

func TestCertificatesThatPoddHasNeedOnlyTheirName(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	made := c.create("sure2", nil)
	first, second := newAuthority(t), newAuthority(t)
	const bundle = "/run/agentpod/ca-bundle.pem"
	put := func(trust string, status int) {
		t.Helper()
		request, _ := http.NewRequest("PUT", "http://podd/agentpod/init", strings.NewReader(`{"trust":`+trust+`}`))
		response, err := poddClient(made["socket"].(string)).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, _ := io.ReadAll(response.Body); response.StatusCode != status {
			t.Errorf("%.40s: %d %s, want %d", trust, response.StatusCode, answer, status)
		}
	}
	put(`{"name":"one"}`, 400)
	put(fmt.Sprintf(`{"ca":%q,"roots":"","name":"one"}`, first), 200)
	put(`{"name":"one"}`, 200)
	put(`{"name":"two"}`, 400)
	if trusted := text(t, inside(made, bundle)); !strings.HasSuffix(trusted, first) {
		t.Error("a name that podd knows, or does not know, changes what is trusted")
	}
	put(fmt.Sprintf(`{"ca":%q,"roots":"","name":"two"}`, second), 200)
	put(`{"name":"one"}`, 400)
	if trusted := text(t, inside(made, bundle)); !strings.HasSuffix(trusted, second) || strings.Contains(trusted, first) {
		t.Error("other certificates do not replace those before")
	}
}

func newAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// layerOf imports a layer whose /etc/resolv.conf is a link, and returns its digest.
func layerOf(t *testing.T, d *daemon, c *client) string {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, entry := range []*tar.Header{
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "etc/resolv.conf", Typeflag: tar.TypeSymlink, Linkname: "../run/systemd/resolve/stub-resolv.conf"},
	} {
		if err := w.WriteHeader(entry); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	sum := sha256.Sum256(data.Bytes())
	digest := hex.EncodeToString(sum[:])
	write(t, filepath.Join(d.home, "tmp/layer.tar"), data.String())
	c.must("layer.import", map[string]any{"digest": digest, "file": "layer.tar"})
	return digest
}

func TestEveryRootUsesPoddsResolver(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	root := map[string]any{"root": map[string]any{"kind": "layers", "layers": []string{layerOf(t, d, c)}}}
	const want = "nameserver 127.0.0.53\noptions timeout:2 attempts:1\n"
	check := func(made map[string]any) {
		t.Helper()
		path := inside(made, "/etc/resolv.conf")
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o644 {
			t.Errorf("%v, %v", info, err)
		} else if text(t, path) != want {
			t.Error(text(t, path))
		}
	}
	made := c.create("name1", root)
	check(made)
	// A program inside has left a link, then a directory.
	link := inside(made, "/etc/resolv.conf")
	os.Remove(link)
	if err := os.Symlink("/var/tmp/elsewhere", link); err != nil {
		t.Fatal(err)
	}
	c.must("sandbox.stop", id("name1"))
	c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "name1"})
	made = c.must("sandbox.start", c.args("name1", root))
	check(made)
	if _, err := os.Lstat(inside(made, "/var/tmp/elsewhere")); !os.IsNotExist(err) {
		t.Errorf("a link was followed: %v", err)
	}
	root["snapshot"] = "shot1"
	check(c.create("name2", root))
	delete(root, "snapshot")
	os.Remove(inside(made, "/etc/resolv.conf"))
	if err := os.Mkdir(inside(made, "/etc/resolv.conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.must("sandbox.stop", id("name1"))
	made = c.must("sandbox.start", c.args("name1", root))
	if info, err := os.Lstat(inside(made, "/etc/resolv.conf")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
}
