package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/descriptor"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/stopwatch"
	"agentpod/native/internal/supervisor"
	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/drivers"
	"agentpod/native/internal/vm/link"
	"agentpod/native/internal/vm/order"
)

const (
	// bootTimeout is how long a machine may take to boot, beginTimeout a booted one to become a sandbox. An
	// emulated machine on a busy host is slow.
	bootTimeout  = 90 * time.Second
	beginTimeout = 60 * time.Second
	// askTimeout bounds a short request.
	askTimeout = 10 * time.Second
	// lastAnswer is how long to wait for an answer that may be on its way.
	lastAnswer = 50 * time.Millisecond
	maxPlan    = 1 << 20
	// mostUnsure bounds the markers that a machine may have after sessions that did not begin.
	mostUnsure = 8
)

// A Report is the one line that a supervisor writes when the machine is ready, or fails.
type Report struct {
	Network netns.Level `json:"network"`
	// Levels are the limits that hold inside.
	Levels map[string]cgroup.Level `json:"levels,omitempty"`
	// Marker is that of a template's link.
	Marker string `json:"marker,omitempty"`
	Error  string `json:"error,omitempty"`
}

// machineSupervisor is the first process of its pid namespace. It outlives podhost, so that connections
// arrive while no podhost runs.
type machineSupervisor struct {
	plan    Plan
	machine vm.Running

	// mu guards the link.
	mu     sync.Mutex
	client *link.Client
	// marker is that of the machine's link. The machine may have one of unsure in its place: a connection ended
	// before it said so.
	marker string
	unsure []string
}

// Supervise is the process. It returns podd's exit code.
func Supervise(args []string) (int, error) {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	planFD := flags.Int("plan-fd", -1, "")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	s := &machineSupervisor{}
	file := os.NewFile(uintptr(*planFD), "plan")
	data, err := io.ReadAll(io.LimitReader(file, maxPlan))
	file.Close()
	if err == nil {
		err = json.Unmarshal(data, &s.plan)
	}
	if err != nil {
		return 0, fmt.Errorf("plan: %w", err)
	}
	s.marker = s.plan.Marker
	// QEMU gets what it needs and nothing else.
	if err := descriptor.SealInherited(); err != nil {
		return 0, err
	}
	return s.run()
}

// file takes a descriptor of the plan over; nil if it has none of this name.
func (s *machineSupervisor) file(name string) *os.File {
	fd, there := s.plan.Files[name]
	if !there {
		return nil
	}
	return os.NewFile(uintptr(fd), name)
}

func (s *machineSupervisor) run() (int, error) {
	ready := s.file(fileReady)
	fail := func(err error) (int, error) {
		s.report(ready, Report{Error: err.Error()})
		if s.machine != nil {
			s.machine.End()
		}
		return 0, err
	}
	abandoned := s.endWithParent()
	if err := s.prepare(); err != nil {
		return fail(err)
	}
	report, err := s.start()
	if err != nil {
		return fail(err)
	}
	if s.plan.IsTemplate {
		s.machine.End()
		s.report(ready, report)
		return 0, nil
	}
	code := make(chan int, 1)
	go func() { code <- s.awaitPodd() }()
	go s.passOn(fileAPI, link.API)
	go s.passOn(fileEgress, link.Egress)
	go s.control()
	s.report(ready, report)
	select {
	case found := <-code:
		s.machine.End()
		return found, nil
	case <-abandoned:
		s.machine.End()
		return 0, errors.New("podhost ended before the sandbox was ready")
	}
}

func (s *machineSupervisor) report(ready *os.File, report Report) {
	if line, err := json.Marshal(report); err == nil {
		ready.Write(append(line, '\n'))
	}
	ready.Close()
}

// prepare joins the group, mounts the /proc of this pid namespace, and gives up the mounts of podhost's
// stage: they would keep the files of other sandboxes mounted.
func (s *machineSupervisor) prepare() error {
	if group := s.file(fileGroup); group != nil {
		if _, err := group.Write([]byte("0")); err != nil {
			return fmt.Errorf("join the group: %w", err)
		}
		group.Close()
	}
	if err := supervisor.MountProc(); err != nil {
		return err
	}
	return supervisor.DropMounts(s.plan.Stage)
}

// endWithParent returns a channel that closes if podhost ends before it lets the machine go.
func (s *machineSupervisor) endWithParent() <-chan struct{} {
	ended := make(chan struct{})
	parent := s.file(fileParent)
	go func() {
		defer parent.Close()
		if n, _ := parent.Read(make([]byte, 1)); n == 0 {
			close(ended)
			// A start that hangs does not look at the channel.
			time.Sleep(time.Second)
			os.Exit(1)
		}
	}()
	return ended
}

// start starts the machine and makes it a sandbox.
func (s *machineSupervisor) start() (report Report, err error) {
	m := vm.Machine{Accel: s.plan.Accel, MemoryMiB: s.plan.MemoryMiB, CPUs: s.plan.CPUs, UID: s.plan.UID, Generation: s.plan.Generation,
		Memory: s.file(fileMemory), Kernel: s.file(fileKernel), Initrd: s.file(fileInitrd), Log: os.Stderr}
	kind, err := drivers.Named(s.plan.VMM)
	if err != nil {
		return report, err
	}
	state := s.file(fileState)
	for _, disk := range s.plan.Disks {
		m.Added = append(m.Added, vm.Disk{Number: disk.Number, ReadOnly: disk.ReadOnly, File: s.file(diskFile(disk.Number))})
	}
	timeout := beginTimeout
	switch {
	case s.plan.IsTemplate:
		timeout = bootTimeout
	case s.plan.Begin == nil:
		// The machine had its disks when it was saved.
		m.State, m.Disks, m.Added = state, m.Added, nil
	default:
		m.State = state
	}
	clock := stopwatch.New()
	defer func() { fmt.Fprintln(os.Stderr, "start:", clock) }()
	if s.machine, err = kind.Driver(s.plan.Programs, s.plan.Scratch).Start(m); err != nil {
		return report, err
	}
	clock.Lap("load")
	go s.logOutput()
	if err := s.machine.Resume(); err != nil {
		return report, err
	}
	defer clock.Lap("sandbox")
	if err := s.connect(time.Now().Add(timeout)); err != nil {
		return report, s.why(err)
	}
	if s.plan.IsTemplate {
		return s.saveTemplate(state)
	}
	request := order.Request{Op: order.Renew, Identity: &s.plan.Identity, Sandbox: s.plan.Begin}
	switch {
	case s.plan.Begin != nil:
		request.Op = order.Begin
	case s.plan.Waits:
		request.Op = order.Prepare
	}
	clock.Lap("link")
	answer, err := s.ask(request, timeout)
	return Report{Network: answer.Network, Levels: answer.Levels}, s.why(err)
}

// why adds the reason why the machine has ended, if it has.
func (s *machineSupervisor) why(err error) error {
	if err == nil {
		return nil
	}
	if cause := s.machine.Err(); cause != nil {
		return fmt.Errorf("%w: %v", err, cause)
	}
	return err
}

// warmUps is how often a template is used before it is saved: the first use of each path takes longer.
const warmUps = 5

// saveTemplate saves a machine that no sandbox has used.
func (s *machineSupervisor) saveTemplate(state *os.File) (Report, error) {
	for n := 0; n < warmUps; n++ {
		if _, err := s.ask(order.Request{Op: order.Ping}, askTimeout); err != nil {
			return Report{}, s.why(err)
		}
	}
	if err := s.machine.Pause(); err != nil {
		return Report{}, err
	}
	return Report{Marker: s.marker}, s.machine.Save(state)
}

// connect begins a session with the machine.
func (s *machineSupervisor) connect(deadline time.Time) error {
	next := link.NewMarker()
	stream, err := s.machine.Link(deadline)
	if err != nil {
		return err
	}
	conn, err := link.Connect(stream, s.marker, next, deadline, s.unsure...)
	if errors.Is(err, link.ErrNotBegun) {
		s.unsure = append(s.unsure, next)
		if len(s.unsure) > mostUnsure {
			s.unsure = s.unsure[1:]
		}
	}
	if err != nil {
		return err
	}
	s.marker, s.unsure = next, nil
	s.client, err = link.NewClient(kept{conn})
	return err
}

// kept is a connection that stays when a session on it ends.
type kept struct{ net.Conn }

func (kept) Close() error { return nil }

// session returns the client of the current session. It begins another one if that has failed.
func (s *machineSupervisor) session() (*link.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client.IsUsable() {
		return s.client, nil
	}
	if err := s.connect(time.Now().Add(askTimeout)); err != nil {
		return nil, err
	}
	return s.client, nil
}

// ask sends a request to vminit. It fills in the time.
func (s *machineSupervisor) ask(request order.Request, limit time.Duration) (answer order.Answer, err error) {
	client, err := s.session()
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	if request.Identity != nil {
		identity := *request.Identity
		identity.ClockNs = time.Now().UnixNano()
		request.Identity = &identity
	}
	err = client.Ask(ctx, request, &answer)
	return answer, err
}

// awaitPodd returns podd's exit code; 128 and the number for a signal.
func (s *machineSupervisor) awaitPodd() int {
	code := make(chan int, 1)
	go func() {
		for {
			answer, err := s.ask(order.Request{Op: order.Wait}, 0)
			if err == nil {
				code <- answer.Code
				return
			}
			select {
			case <-s.machine.Done():
				return
			case <-time.After(askTimeout / 10):
			}
		}
	}()
	select {
	case found := <-code:
		return found
	case <-s.machine.Done():
	}
	// The answer may be on its way.
	select {
	case found := <-code:
		return found
	case <-time.After(lastAnswer):
	}
	err := s.machine.Err()
	fmt.Fprintln(os.Stderr, "the machine has ended:", err)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, known := exit.Sys().(syscall.WaitStatus); known && status.Signaled() {
			return 128 + int(status.Signal())
		}
	}
	return 1
}

// passOn accepts connections and carries each of them to a target inside.
func (s *machineSupervisor) passOn(file, target string) {
	err := supervisor.Serve(s.file(file), func(conn *net.UnixConn) {
		go func() {
			client, err := s.session()
			if err != nil {
				fmt.Fprintln(os.Stderr, "the machine does not answer:", err)
				conn.Close()
				return
			}
			client.Carry(target, conn)
		}()
	})
	fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
}
