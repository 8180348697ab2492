package gvisor

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"agentpod/native/internal/arrivals"
	"agentpod/native/internal/descriptor"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/supervisor"

	"golang.org/x/sys/unix"
)

// SupervisorCommand is podhost's subcommand that becomes the supervisor of a sandbox.
const SupervisorCommand = "gvisor-supervisor"

// maxLine bounds what podd may write in one line.
const maxLine = 4 << 10

// A sandboxSupervisor is the first process of its pid namespace. It starts runsc, hands connections in, and
// ends with the sandbox. It outlives podhost, so that connections arrive while no podhost runs.
type sandboxSupervisor struct {
	runsc, name, directory, stage                          string
	apiFD, egressFD, parentFD, readyFD, groupFD, controlFD int
	// image is the saved memory that the sandbox starts from; empty for a new one. rename is its host name if
	// the memory has another one.
	image, rename string
	// awaits: nothing runs inside until podhost says which memory it starts from.
	awaits bool

	// isPaused: podhost has paused it. Only the goroutine of control uses it.
	isPaused bool

	clock *stopwatch.Stopwatch

	link *net.UnixConn
	// answers are podd's lines after the first.
	answers chan string
	// sending keeps messages to podd whole.
	sending sync.Mutex
}

// Supervise is the process. It returns podd's exit code.
func Supervise(args []string) (int, error) {
	s := &sandboxSupervisor{answers: make(chan string, 1)}
	flags := flag.NewFlagSet(SupervisorCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, value := range map[string]*string{"runsc": &s.runsc, "name": &s.name, "rename": &s.rename, "directory": &s.directory, "stage": &s.stage, "image": &s.image} {
		flags.StringVar(value, name, "", "")
	}
	for name, value := range map[string]*int{"api-fd": &s.apiFD, "egress-fd": &s.egressFD, "parent-fd": &s.parentFD, "ready-fd": &s.readyFD, "group-fd": &s.groupFD, "control-fd": &s.controlFD} {
		flags.IntVar(value, name, -1, "")
	}
	flags.BoolVar(&s.awaits, "await", false, "")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	// runsc gets what it needs and nothing else.
	if err := descriptor.SealInherited(); err != nil {
		return 0, err
	}
	return s.run()
}

func (s *sandboxSupervisor) run() (int, error) {
	ready := os.NewFile(uintptr(s.readyFD), "ready")
	s.clock = stopwatch.New()
	if err := s.prepare(); err != nil {
		return 0, err
	}
	s.clock.Lap("prepare")
	ended := s.endWithParent()
	link, podd, err := arrivals.Pair()
	if err != nil {
		return 0, err
	}
	s.link = link
	pid, err := s.start(podd)
	podd.Close()
	if err != nil {
		fmt.Fprintf(ready, "{\"error\":%s}\n", strconv.Quote(err.Error()))
		return 0, err
	}
	s.clock.Lap("runsc")
	go s.read(ready)
	go s.passOn(s.apiFD, arrivals.API)
	go s.passOn(s.egressFD, arrivals.Egress)
	go s.control()
	// What this sandbox needs is in the namespace of its own processes.
	if err := supervisor.DropMounts(s.stage); err != nil {
		return 0, err
	}
	code := make(chan int, 1)
	go func() { code <- reapUntil(pid) }()
	select {
	case found := <-code:
		return found, nil
	case <-ended:
		return 0, errors.New("podhost ended before the sandbox was ready")
	}
}

// prepare joins the group and mounts the /proc of this pid namespace, which runsc needs.
func (s *sandboxSupervisor) prepare() error {
	if s.groupFD >= 0 {
		if _, err := unix.Write(s.groupFD, []byte("0")); err != nil {
			return fmt.Errorf("join the group: %w", err)
		}
	}
	return supervisor.MountProc()
}

// endWithParent returns a channel that closes if podhost ends before it lets the sandbox go.
func (s *sandboxSupervisor) endWithParent() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		parent := os.NewFile(uintptr(s.parentFD), "parent")
		defer parent.Close()
		if n, _ := parent.Read(make([]byte, 1)); n == 0 {
			close(ended)
		}
	}()
	return ended
}

// flags are those of every call of runsc. The network is gVisor's own and has loopback only; every limit is
// that of the control groups which this process is in.
func (s *sandboxSupervisor) flags() []string {
	return []string{
		"--root=" + filepath.Join(s.directory, "state"), "--platform=systrap", "--ignore-cgroups", "--network=none", "--net-raw",
		"--overlay2=none", "--file-access-mounts=exclusive", "--allow-suid", "--host-uds=none",
		// The ids of a restored sandbox are others than those of its original, which is all that differs.
		"--restore-spec-validation=ignore",
	}
}

func (s *sandboxSupervisor) command(args ...string) *exec.Cmd {
	return exec.Command(s.runsc, append(s.flags(), args...)...)
}

// start runs runsc, and returns the process id of the sandbox.
func (s *sandboxSupervisor) start(podd *os.File) (int, error) {
	pidFile := filepath.Join(s.directory, "pid")
	// runsc refuses a plain file as standard output. The sandbox keeps the pipe open.
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	var said tail
	go io.Copy(io.MultiWriter(os.Stderr, &said), read)
	how := []string{"run", "--detach"}
	switch {
	case s.awaits:
		how = []string{"create"}
	case s.image != "":
		how = []string{"restore", "--detach", "--image-path=" + s.image}
	}
	cmd := s.command(append(how, "--pid-file="+pidFile, "--bundle="+s.directory, s.name)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = podd, write, write
	err = cmd.Run()
	write.Close()
	if err != nil {
		return 0, fmt.Errorf("runsc: %v: %s", err, said.String())
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// passOn accepts connections and hands each of them in.
func (s *sandboxSupervisor) passOn(fd int, kind arrivals.Kind) {
	err := supervisor.Serve(os.NewFile(uintptr(fd), "listener"), func(conn *net.UnixConn) {
		s.sending.Lock()
		err := arrivals.Send(s.link, kind, conn)
		s.sending.Unlock()
		conn.Close()
		if err != nil {
			fmt.Fprintln(os.Stderr, "hand a connection in:", err)
		}
	})
	fmt.Fprintln(os.Stderr, "listener:", err)
}

// read passes podd's first line on to podhost. SECURITY: these are bytes from inside; podhost parses them.
func (s *sandboxSupervisor) read(ready *os.File) {
	lines := bufio.NewReaderSize(s.link, maxLine)
	var line []byte
	var err error
	switch {
	case s.awaits:
		fmt.Fprintln(ready, served)
		ready.Close()
	case s.image != "":
		// A restored podd serves already, and says nothing by itself.
		go s.reportRenewed(ready)
	default:
		if line, err = lines.ReadSlice('\n'); err == nil {
			ready.Write(line)
		}
		ready.Close()
	}
	for err == nil {
		if line, err = lines.ReadSlice('\n'); err == nil {
			select {
			case s.answers <- strings.TrimSpace(string(line)):
			default:
				// podd says more than it was asked.
			}
		}
	}
}

// served is the report about a restored podd.
const served = `{"network":{"level":"transparent"}}`

// reportRenewed tells podhost that a restored sandbox runs.
func (s *sandboxSupervisor) reportRenewed(ready *os.File) {
	defer ready.Close()
	if err := s.renew(s.rename); err != nil {
		fmt.Fprintf(ready, "{\"error\":%s}\n", strconv.Quote(err.Error()))
		return
	}
	fmt.Fprintln(ready, served)
}

// restore starts a sandbox that awaits its memory.
func (s *sandboxSupervisor) restore(image, hostname string) error {
	if !s.awaits {
		return errors.New("the sandbox has started already")
	}
	s.awaits, s.clock = false, stopwatch.New()
	if err := s.call("restore", "--detach", "--image-path="+image, "--bundle="+s.directory, s.name); err != nil {
		return err
	}
	s.clock.Lap("runsc")
	return s.renew(hostname)
}

// renew has a restored podd set up its network and take this host name, unless it is empty, before podhost
// learns that the sandbox runs. gVisor keeps a host name that was set inside.
func (s *sandboxSupervisor) renew(hostname string) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.signal(arrivals.Renew, hostname, arrivals.Renewed); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	s.clock.Lap("renew")
	fmt.Fprintln(os.Stderr, "restore:", s.clock)
	return nil
}

// reapUntil collects every process that ends, until the sandbox does, and returns its exit code; 128 and the
// number for a signal.
func reapUntil(pid int) int {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 1
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal())
		case ended == pid && status.Exited():
			return status.ExitStatus()
		}
	}
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, data...)
	if len(t.data) > maxLine/2 {
		t.data = append([]byte(nil), t.data[len(t.data)-maxLine/2:]...)
	}
	return len(data), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.data))
}
