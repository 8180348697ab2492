package launch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Helper {
		if err := Become(os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func run(t *testing.T, argv []string, files ...*os.File) string {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skipf("%s is not here", argv[0])
	}
	program, err := Seal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	l, err := Prepare(context.Background(), program, nil, argv, files, output)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Abort()
	if err := l.Go(); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

func TestTheRuntimeGetsOnlyTheListedDescriptors(t *testing.T) {
	leak, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	high, err := unix.FcntlInt(uintptr(leak), unix.F_DUPFD, 200)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(high)
	given, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	// ls itself opens the directory it lists, as the lowest free descriptor: 4.
	if got := strings.Fields(run(t, []string{"ls", "/proc/self/fd"}, given)); strings.Join(got, " ") != "0 1 2 3 4" {
		t.Fatalf("descriptors %v arrived", got)
	}
}

func TestTheRuntimeDoesNotGetTheEnvironment(t *testing.T) {
	t.Setenv("AGENTPOD_CANARY", "secret")
	if said := run(t, []string{"env"}); strings.Contains(said, "secret") || !strings.HasPrefix(said, "PATH=") {
		t.Fatalf("environment: %s", said)
	}
}

func TestASealedProgramCannotBeWritten(t *testing.T) {
	program, err := Seal("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if _, err := program.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("it was written to")
	}
	if err := program.Truncate(0); err == nil {
		t.Fatal("it was truncated")
	}
}

func TestAnAbortedLaunchExecutesNothing(t *testing.T) {
	program, err := Seal("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	defer program.Close()
	mark := filepath.Join(t.TempDir(), "mark")
	l, err := Prepare(context.Background(), program, nil, []string{"sh", "-c", "touch " + mark}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Abort()
	if _, err := os.Stat(mark); err == nil {
		t.Fatal("the program ran")
	}
}
