package inside

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/streams"
	"agentpod/native/internal/unixsocket"
	"agentpod/native/internal/vm/link"

	"golang.org/x/sys/unix"
)

const (
	// home is where podd's sockets are.
	home = "/run/agentpod"
	// runName is the name of podd's control groups.
	runName     = "sandbox"
	dialTimeout = 5 * time.Second
	// machineIDs is how many ids a sandbox has. They are the machine's own, unchanged: nothing else uses them.
	machineIDs = 65536
)

// machine is the state of vminit.
type machine struct {
	stage    *mount.Stage
	podd     string
	cgroups  cgroup.Manager
	launcher *boot.Launcher
	run      *boot.Run
	// bootID is the file that podd's namespace shows as the boot id.
	bootID *os.File
	// docker: root inside may run a container engine.
	docker bool

	// mu keeps requests of the supervisor apart.
	mu sync.Mutex
	// upper is the mount point of the disk that the sandbox writes to; nil before Begin.
	upper *os.File

	ended chan struct{}
	// code is podd's exit code, after ended is closed.
	code int
}

// Run is vminit. It returns only if the machine cannot be used.
func Run() error {
	podd, docker, err := prepare()
	if err != nil {
		return err
	}
	port, err := openLink()
	if err != nil {
		return err
	}
	m := &machine{docker: docker, ended: make(chan struct{})}
	if err := m.startPodd(podd); err != nil {
		return fmt.Errorf("podd: %w", err)
	}
	go m.reap()
	if err := m.launcher.AwaitReady(m.run); err != nil {
		return err
	}
	// podd stays if this process is restored elsewhere: nothing but the machine's end ends it.
	m.run.Detach()
	targets := streams.Targets{Dial: m.dial}
	return link.NewPort(port).Serve(targets.Serve)
}

// startPodd starts podd as podhost starts it on the host's kernel.
func (m *machine) startPodd(podd []byte) error {
	if err := os.MkdirAll(filepath.Join(home, "run", "s"), 0o700); err != nil {
		return err
	}
	var err error
	if m.stage, err = mount.NewStage(false, nil); err != nil {
		return err
	}
	if m.podd, err = m.stage.File("podd", podd, 0o555); err != nil {
		return err
	}
	root, err := m.stage.Blank(m.podd, shells.KeptMounts, nil)
	if err != nil {
		return err
	}
	m.cgroups = cgroup.Detect("vm")
	m.launcher = &boot.Launcher{Home: home, Cgroups: m.cgroups, Stage: m.stage, Root: root, OwnKernel: true}
	m.run = boot.NewRun(home, runName, boot.Container)
	m.run.Docker = m.docker
	m.run.SetIDs(&ids.Range{Range: mount.Range{Base: 0, Count: machineIDs}})
	if err := m.launcher.Start(m.run); err != nil {
		return err
	}
	// The name goes when podd is ready; the file stays, below podd's mount.
	m.bootID, err = os.OpenFile(filepath.Join(m.stage.Path(), "file", "boot-"+runName), os.O_RDWR, 0)
	return err
}

// reap collects every process that ends, until podd does.
func (m *machine) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == m.run.Pid {
			m.code = 1
			if status.Exited() {
				m.code = status.ExitStatus()
			} else if status.Signaled() {
				m.code = 128 + int(status.Signal())
			}
			close(m.ended)
			return
		}
	}
}

// dial connects a stream. podd sees that the peer is outside: vminit has no pid in podd's namespace.
func (m *machine) dial(target string) (*net.UnixConn, error) {
	switch target {
	case link.API:
		return dialUnix(m.run.Socket)
	case link.Egress:
		return dialUnix(m.run.Out)
	case link.Control:
		ours, theirs, err := streams.Pair()
		if err == nil {
			go m.answer(theirs)
		}
		return ours, err
	}
	return nil, nil
}

func dialUnix(path string) (*net.UnixConn, error) {
	conn, err := unixsocket.Dial(path, dialTimeout)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
