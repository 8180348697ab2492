package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const underFilter = "AGENTPOD_TEST_UNDER_FILTER"

// TestMain runs this binary again as the program that puts itself under the filter.
func TestMain(m *testing.M) {
	if os.Getenv(underFilter) == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if err := Install(); err != nil {
		panic(err)
	}
	if os.Args[1] == "probe" {
		probe()
		return
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		panic(err)
	}
	panic(syscall.Exec(path, os.Args[1:], os.Environ()))
}

// probe tries real calls and prints those with the wrong answer.
func probe() {
	raw := func(number int, args ...uintptr) error {
		args = append(args, 0, 0, 0)
		_, _, errno := unix.Syscall(uintptr(number), args[0], args[1], args[2])
		return errno
	}
	for _, c := range []struct {
		name string
		got  error
		want error
	}{
		{"unshare", unix.Unshare(unix.CLONE_NEWUSER), unix.EPERM},
		{"ptrace", raw(unix.SYS_PTRACE), unix.EPERM},
		{"keyctl", raw(unix.SYS_KEYCTL), unix.EPERM},
		{"bpf", raw(unix.SYS_BPF), unix.EPERM},
		{"mount", unix.Mount("none", "/", "tmpfs", 0, ""), unix.EPERM},
		{"io_uring", raw(unix.SYS_IO_URING_SETUP, 1), unix.ENOSYS},
		{"aio", raw(unix.SYS_IO_SETUP, 1), unix.ENOSYS},
		{"a filter of its own", raw(unix.SYS_SECCOMP, setModeFilter), unix.EINVAL},
		{"a call of the future", raw(5000), unix.ENOSYS},
		{"packet socket", raw(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW), unix.EAFNOSUPPORT},
		{"typing into a terminal", raw(unix.SYS_IOCTL, 0, unix.TIOCSTI), unix.EPERM},
		{"an ordinary call", unix.Access("/", unix.R_OK), nil},
	} {
		if c.got != c.want {
			fmt.Printf("%s: %v, want %v\n", c.name, c.got, c.want)
		}
	}
}

func filtered(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	command := exec.Command(self, args...)
	command.Env = append(os.Environ(), underFilter+"=1")
	return command
}

func TestTheKernelEnforcesTheFilter(t *testing.T) {
	out, err := filtered("probe").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestOrdinaryProgramsRunUnderTheFilter(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "a.c")
	os.WriteFile(source, []byte("int main(){return 0;}"), 0o644)
	for _, args := range [][]string{
		{"sh", "-c", "echo a | cat | grep a"},
		{"node", "-e", "const{Worker}=require('worker_threads');new Worker('process.exit(0)',{eval:true});require('net').createServer().listen(0,function(){this.close()});require('child_process').execSync('true')"},
		{"python3", "-c", "import threading,subprocess,ssl,multiprocessing as m;threading.Thread(target=print).start();subprocess.check_call(['true']);p=m.Process(target=print);p.start();p.join();assert p.exitcode==0"},
		{"gcc", "-o", filepath.Join(dir, "a"), source},
		{"java", "-version"},
		{"git", "init", "-q", filepath.Join(dir, "r")},
		{"go", "version"},
		{"rustc", "--version"},
	} {
		args := args
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("%s is not installed here", args[0])
			}
			if out, err := filtered(args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
