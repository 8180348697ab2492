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
	"time"

	"agentpod/native/internal/arrivals"
	"agentpod/native/internal/bundle"
	"agentpod/native/internal/descriptor"
	"agentpod/native/internal/lateroot"

	"golang.org/x/sys/unix"
)

// SupervisorCommand is podhost's subcommand that becomes the supervisor of a sandbox.
const SupervisorCommand = "gvisor-supervisor"

const (
	// maxLine bounds what podd may write in one line.
	maxLine = 4 << 10
	// acceptPause is how long to wait if a connection cannot be accepted.
	acceptPause = 50 * time.Millisecond
)

// A supervisor is the first process of its pid namespace. It starts runsc, hands connections in, and ends
// with the sandbox. It outlives podhost, so that connections arrive while no podhost runs.
type supervisor struct {
	runsc, name, directory, stage                          string
	apiFD, egressFD, parentFD, readyFD, groupFD, controlFD int
	// image is the saved memory that the sandbox starts from; empty for a new one. rename is its host name if
	// the memory has another one.
	image, rename string

	// isPaused: podhost has paused it. Only the goroutine of control uses it.
	isPaused bool

	link *net.UnixConn
	// answers are podd's lines after the first.
	answers chan string
	// sending keeps messages to podd whole.
	sending sync.Mutex
}

// Supervise is the process. It returns podd's exit code.
func Supervise(args []string) (int, error) {
	s := &supervisor{answers: make(chan string, 1)}
	flags := flag.NewFlagSet(SupervisorCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name, value := range map[string]*string{"runsc": &s.runsc, "name": &s.name, "rename": &s.rename, "directory": &s.directory, "stage": &s.stage, "image": &s.image} {
		flags.StringVar(value, name, "", "")
	}
	for name, value := range map[string]*int{"api-fd": &s.apiFD, "egress-fd": &s.egressFD, "parent-fd": &s.parentFD, "ready-fd": &s.readyFD, "group-fd": &s.groupFD, "control-fd": &s.controlFD} {
		flags.IntVar(value, name, -1, "")
	}
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	// runsc gets what it needs and nothing else.
	if err := descriptor.SealInherited(); err != nil {
		return 0, err
	}
	return s.run()
}

func (s *supervisor) run() (int, error) {
	ready := os.NewFile(uintptr(s.readyFD), "ready")
	if err := s.prepare(); err != nil {
		return 0, err
	}
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
	go s.read(ready)
	go s.passOn(s.apiFD, arrivals.API)
	go s.passOn(s.egressFD, arrivals.Egress)
	go s.control()
	if err := s.dropMounts(); err != nil {
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
func (s *supervisor) prepare() error {
	if s.groupFD >= 0 {
		if _, err := unix.Write(s.groupFD, []byte("0")); err != nil {
			return fmt.Errorf("join the group: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// endWithParent returns a channel that closes if podhost ends before it lets the sandbox go.
func (s *supervisor) endWithParent() <-chan struct{} {
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
func (s *supervisor) flags() []string {
	return []string{
		"--root=" + filepath.Join(s.directory, "state"), "--platform=systrap", "--ignore-cgroups", "--network=none", "--net-raw",
		"--overlay2=none", "--file-access-mounts=exclusive", "--allow-suid", "--host-uds=none",
		// The ids of a restored sandbox are others than those of its original, which is all that differs.
		"--restore-spec-validation=ignore",
	}
}

func (s *supervisor) command(args ...string) *exec.Cmd {
	return exec.Command(s.runsc, append(s.flags(), args...)...)
}

// start runs runsc, and returns the process id of the sandbox.
func (s *supervisor) start(podd *os.File) (int, error) {
	pidFile := filepath.Join(s.directory, "pid")
	// runsc refuses a plain file as standard output. The sandbox keeps the pipe open.
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	var said tail
	go io.Copy(io.MultiWriter(os.Stderr, &said), read)
	how := []string{"run"}
	if s.image != "" {
		how = []string{"restore", "--image-path=" + s.image}
	}
	cmd := s.command(append(how, "--detach", "--pid-file="+pidFile, "--bundle="+s.directory, s.name)...)
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

// dropMounts gives up the mounts of podhost's stage that this namespace has copies of: they would keep the
// roots of other sandboxes mounted. What this sandbox needs is in the namespace of its own processes.
func (s *supervisor) dropMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(string(data), "\n")
	// A mount comes after the one that it is in.
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 4 && strings.HasPrefix(fields[4], s.stage+"/") {
			unix.Unmount(fields[4], unix.MNT_DETACH)
		}
	}
	return nil
}

// passOn accepts connections and hands each of them in.
func (s *supervisor) passOn(fd int, kind arrivals.Kind) {
	file := os.NewFile(uintptr(fd), "listener")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "listener:", err)
		return
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		socket := conn.(*net.UnixConn)
		s.sending.Lock()
		err = arrivals.Send(s.link, kind, socket)
		s.sending.Unlock()
		socket.Close()
		if err != nil {
			fmt.Fprintln(os.Stderr, "hand a connection in:", err)
		}
	}
}

// read passes podd's first line on to podhost. SECURITY: these are bytes from inside; podhost parses them.
func (s *supervisor) read(ready *os.File) {
	lines := bufio.NewReaderSize(s.link, maxLine)
	var line []byte
	var err error
	if s.image != "" {
		// A restored podd serves already, and says nothing by itself.
		go s.renew(ready)
	} else {
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

// renew has a restored podd set up its network, and gives a copy its host name, before podhost learns that
// the sandbox runs.
func (s *supervisor) renew(ready *os.File) {
	defer ready.Close()
	renamed := make(chan error, 1)
	go func() { renamed <- s.setHostname() }()
	s.sending.Lock()
	err := s.signal(arrivals.Renew, arrivals.Renewed)
	s.sending.Unlock()
	if failure := <-renamed; err == nil {
		err = failure
	}
	if err != nil {
		fmt.Fprintf(ready, "{\"error\":%s}\n", strconv.Quote("renew: "+err.Error()))
		return
	}
	fmt.Fprintln(ready, `{"network":{"level":"transparent"}}`)
}

// setHostname is needed because gVisor keeps a host name that was set inside.
func (s *supervisor) setHostname() error {
	if s.rename == "" {
		return nil
	}
	return s.call("exec", "--cap=CAP_SYS_ADMIN", s.name, bundle.PoddPath, lateroot.RenameCommand, s.rename)
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
