package sigstop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentpod/native/internal/proctree"

	"golang.org/x/sys/unix"
)

// family starts a shell with a child that counts into a file and one that is stopped.
func family(t *testing.T) (cmd *exec.Cmd, count func() int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sigstop-")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "count")
	script := `sleep 100 & kill -STOP $!
(i=0; while :; do i=$((i+1)); echo $i > ` + file + `.new; mv ` + file + `.new ` + file + `; done) & wait`
	cmd = exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The loop starts programs all the time; each of them is in the group. One that is about to end may
		// still finish a call.
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
		eventually(t, "the directory is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	count = func() int {
		data, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		return n
	}
	return cmd, count
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func stopped(pid int) (n int) {
	for _, p := range proctree.Descendants(pid) {
		if p.State == 'T' {
			n++
		}
	}
	return n
}

// STATE-2
func TestNoStoppedProcessRunsUntilContinue(t *testing.T) {
	cmd, count := family(t)
	pid, file := cmd.Process.Pid, filepath.Join(t.TempDir(), "stopped.json")
	eventually(t, "it counts, and one is stopped", func() bool { return count() > 3 && stopped(pid) == 1 })
	for i := 0; i < 2; i++ {
		// The second call is that of a helper that was killed in between and repeats what it had recorded.
		if err := Stop(pid, file); err != nil {
			t.Fatal(err)
		}
	}
	before := count()
	time.Sleep(50 * time.Millisecond)
	if count() != before {
		t.Fatal("it went on counting")
	}
	if err := Continue(pid, file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it counts on", func() bool { return count() > before })
	eventually(t, "what was stopped before still is, and nothing else", func() bool { return stopped(pid) == 1 })
	if err := Continue(pid, file); err != nil {
		t.Fatal(err)
	}
}

func TestAnEndedProcessCannotBeStopped(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if Stop(cmd.Process.Pid, filepath.Join(t.TempDir(), "stopped.json")) == nil {
		t.Fatal("no error")
	}
}
