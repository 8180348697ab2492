package clone

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET

// start runs a program and returns what it printed and its status.
func start(t *testing.T, change func(p *Program), argv ...string) (output string, status unix.WaitStatus, err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	// The files are in an order in which each would be overwritten by another if they were moved one by one.
	p := Program{Path: argv[0], Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Files: []*os.File{null, write, write, null},
		Namespaces: namespaces, Unshared: unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP, Bounding: 1<<unix.CAP_CHOWN | 1<<unix.CAP_KILL,
		IDs: syscall.SysProcIDMap{ContainerID: 0, HostID: 0x7E000000, Size: 65536}}
	change(&p)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := p.Start()
	write.Close()
	if err != nil {
		return "", 0, err
	}
	data, _ := io.ReadAll(read)
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			return string(data), status, err
		}
	}
}

func same(*Program) {}

func TestAProgramStartsAsRootOfItsNamespacesWithTheGivenBoundingSet(t *testing.T) {
	output, status, err := start(t, same, "/bin/sh", "-c", `id -u; id -g; grep -h -E 'CapBnd|CapEff|NSpid' /proc/self/status; for f in /proc/self/fd/*; do echo ${f##*/}; done; pwd; env | sort; ps -o sid= -p $$ 2>/dev/null`)
	if err != nil || status.ExitStatus() != 0 {
		t.Fatalf("%v, %v: %s", err, status, output)
	}
	for _, want := range []string{"0\n0\n", "CapBnd:\t0000000000000021\n", "CapEff:\t0000000000000021\n", "\n/\n", "PATH=/usr/bin:/bin\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
	// The control: with all capabilities in the bounding set, root inside has them.
	output, _, err = start(t, func(p *Program) { p.Bounding = ^uint64(0) }, "/bin/sh", "-c", "grep CapEff /proc/self/status")
	if err != nil || !strings.Contains(output, "ffffffff") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestWhatIsInheritableIsNotInTheBoundingSet(t *testing.T) {
	const sets = "Cap(Inh|Prm|Eff|Bnd|Amb)"
	keep := func(p *Program) { p.Inheritable = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_CHECKPOINT_RESTORE }
	output, status, err := start(t, keep, "/bin/grep", "-E", sets, "/proc/self/status")
	if err != nil || status.ExitStatus() != 0 {
		t.Fatalf("%v, %v: %s", err, status, output)
	}
	for name, want := range map[string]string{"Inh": "0000010000200000", "Prm": "0000010000200021", "Eff": "0000010000200021",
		"Bnd": "0000000000000021", "Amb": "0000000000000000"} {
		if !strings.Contains(output, "Cap"+name+":\t"+want+"\n") {
			t.Errorf("Cap%s is not %s: %s", name, want, output)
		}
	}
	// Until it clears the inheritable set, what it executes as root has it too. Afterwards nothing can gain it.
	output, _, err = start(t, keep, "/bin/sh", "-c", "grep -E '"+sets+"' /proc/self/status")
	if err != nil || strings.Count(output, "0000010000200021\n") != 2 {
		t.Errorf("before: %v: %s", err, output)
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs setpriv")
	}
	output, _, err = start(t, keep, "/bin/sh", "-c", "setpriv --inh-caps=-all grep -E '"+sets+"' /proc/self/status")
	if err != nil || strings.Count(output, "0000000000000021\n") != 3 {
		t.Errorf("afterwards: %v: %s", err, output)
	}
}

func TestAProgramStartsWithoutBlockedOrIgnoredSignals(t *testing.T) {
	output, _, err := start(t, same, "/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SigBlk", "SigIgn"} {
		if want := name + ":\t0000000000000000\n"; !strings.Contains(output, want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
}

func TestAProgramHasOnlyTheGivenDescriptors(t *testing.T) {
	// Not even one that has no mark to close on exec.
	leak, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	// ls opens the directory that it lists as the lowest free descriptor: 4.
	output, _, err := start(t, same, "/bin/ls", "/proc/self/fd")
	if err != nil || strings.Join(strings.Fields(output), " ") != "0 1 2 3 4" {
		t.Fatalf("%v: %s", err, output)
	}
}

func TestAStartThatFailsNamesTheStepAndLeavesNoProcess(t *testing.T) {
	_, _, err := start(t, same, "/no/such/program")
	if !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "execute the program") {
		t.Errorf("a missing program: %v", err)
	}
	_, _, err = start(t, func(p *Program) { p.IDs.Size = 0 }, "/bin/true")
	if err == nil || !strings.Contains(err.Error(), "uid_map") {
		t.Errorf("ids that the kernel refuses: %v", err)
	}
	_, _, err = start(t, func(p *Program) { p.Namespaces |= unix.CLONE_THREAD }, "/bin/true")
	if err == nil || !strings.Contains(err.Error(), "clone") {
		t.Errorf("flags that the kernel refuses: %v", err)
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("process %d is left: %v", pid, err)
	}
}

func TestManyProgramsStartAtTheSameTime(t *testing.T) {
	done := make(chan error)
	for i := 0; i < 16; i++ {
		go func() {
			output, status, err := start(t, same, "/bin/echo", "hello")
			if err == nil && (output != "hello\n" || status.ExitStatus() != 0) {
				err = errors.New(output)
			}
			done <- err
		}()
	}
	for i := 0; i < 16; i++ {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
