package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test program itself becomes podimage's process, because rights that are given up do not come back.
func TestMain(m *testing.M) {
	if os.Getenv("AGENTPOD_TEST_RIGHTS") == "1" {
		if err := dropRights(); err != nil {
			os.Exit(3)
		}
		status, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			os.Exit(4)
		}
		os.Stdout.Write(status)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// IM-01.
func TestPodimageGivesUpItsRights(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = []string{"AGENTPOD_TEST_RIGHTS=1"}
	out, err := child.Output()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	fields := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	if fields["NoNewPrivs"] != "1" {
		t.Errorf("it may gain rights: %q", fields["NoNewPrivs"])
	}
	if os.Geteuid() != 0 {
		t.Skip("only root has rights to give up")
	}
	// The control: this process has them.
	own, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(own), "Uid:\t0") {
		t.Fatalf("this test is not root: %v", err)
	}
	if uid := strings.Fields(fields["Uid"]); len(uid) != 4 || strings.Join(uid, " ") != "65534 65534 65534 65534" {
		t.Errorf("its user is %v", uid)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if strings.Trim(fields[set], "0") != "" {
			t.Errorf("%s is %s", set, fields[set])
		}
	}
	if fields["Groups"] != "" {
		t.Errorf("its groups are %q", fields["Groups"])
	}
}
