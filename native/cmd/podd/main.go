// podd is PID 1 of a sandbox: it starts processes, moves files and tunnels ports for the server outside. It
// speaks spec/guest-protocol.md on a listener that it inherits, or over one byte stream. `podd connect`
// connects to such a stream.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/capability"
	"agentpod/native/internal/descriptor"
	_ "agentpod/native/internal/early"
	"agentpod/native/internal/egress"
	"agentpod/native/internal/guard"
	"agentpod/native/internal/guest"
	"agentpod/native/internal/kernelfs"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/process"
	"agentpod/native/internal/seccomp"
)

const (
	exitFailed  = 1
	exitExpired = 79 // the lease has expired; podhost reads this code
	umask       = 0o022
	// gcPercent trades processor time for a small idle footprint. It holds from settleTime on: before, a
	// collection would only delay the start, and the life of many sandboxes is shorter.
	gcPercent  = 30
	settleTime = 3 * time.Second
)

type options struct {
	listenerFD, payloadFD, oomFD, parentFD, readyFD, containerFD, arrivalsFD int
	network                                                                  bool
	egress                                                                   egress.Options
	waitMs                                                                   int64
	narrow                                                                   bool
	unguarded                                                                bool
	docker                                                                   bool
	stdio                                                                    bool
	streams, tokenFile                                                       string
}

func init() {
	// The first thread is kept for main. File operations change the identity of their thread and then end it,
	// and the first thread cannot end.
	runtime.LockOSThread()
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("podd: ")
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "connect":
			connect(os.Args[2:])
			return
		case lateroot.Command:
			if err := lateroot.Run(); err != nil {
				fail(err)
			}
			return
		}
	}
	// With --network, podd makes these sockets itself.
	o := options{egress: egress.Options{ListenerFD: -1, DNSFD: -1, DNSOverTCPFD: -1}}
	flag.IntVar(&o.listenerFD, "listener-fd", 3, "inherited listening socket")
	flag.IntVar(&o.arrivalsFD, "arrivals-fd", -1, "socket on which connections are handed in, instead of a listening socket; in gVisor")
	flag.IntVar(&o.containerFD, bundle.ContainerFlag, -1, "OCI configuration of the container that this process becomes")
	flag.IntVar(&o.readyFD, "ready-fd", -1, "pipe to podhost, for the line that says that podd serves, or why not")
	flag.BoolVar(&o.network, "network", false, "set up the network namespace; only with --container-fd")
	flag.IntVar(&o.payloadFD, "payload-group-fd", -1, "tasks or cgroup.threads of the payload group, open for writing")
	flag.IntVar(&o.oomFD, "oom-events-fd", -1, "memory.events or memory.oom_control of the sandbox, open for reading")
	flag.IntVar(&o.egress.OutFD, "out-fd", -1, "listening unix socket for the egress process")
	flag.IntVar(&o.parentFD, "parent-fd", -1, "pipe from podhost: end when it closes, stay when a byte arrives")
	flag.Int64Var(&o.waitMs, "wait-ms", 0, "end if no settings arrive within this time")
	flag.BoolVar(&o.narrow, "narrow-kernel-files", false, "hide what programs do not need of /sys and /proc; only in podd's own mount namespace")
	flag.BoolVar(&o.unguarded, "unguarded", false, "no guards and no peer check, for tests outside a sandbox")
	flag.BoolVar(&o.docker, "docker", false, "leave root inside its capabilities, for a container engine; only where the kernel is the sandbox's own")
	flag.BoolVar(&o.stdio, "stdio", false, "serve HTTP/2 on stdin and stdout, instead of a listening socket, until they end")
	flag.StringVar(&o.streams, "streams", "", "serve HTTP/2 on connections to this abstract unix socket (@NAME), instead of a listening socket")
	flag.StringVar(&o.tokenFile, "token-file", "", "file with the token for --streams; read and removed at once")
	flag.IntVar(&o.egress.Port, "door", 0, "port of 127.0.0.1 for connections that leave the sandbox, without --network")
	flag.Parse()
	inside, err := enterGVisor(&o)
	if err != nil {
		fail(err)
	}
	ready := newReadiness(o.readyFD, inside)
	err = run(o, ready, inside)
	switch {
	case err == nil:
		os.Exit(exitExpired)
	case errors.Is(err, errStreamOver):
		os.Exit(0)
	}
	ready.failed(err)
	fail(err)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "podd:", err)
	os.Exit(exitFailed)
}

// run serves until the lease expires. inside is nil outside of gVisor.
func run(o options, ready *readiness, inside *gvisorInside) error {
	time.AfterFunc(settleTime, func() {
		runtime.GOMAXPROCS(2)
		debug.SetGCPercent(gcPercent)
		debug.FreeOSMemory()
	})
	unix.Umask(umask)
	token, err := readToken(o)
	if err != nil {
		return err
	}
	level, err := becomeContainer(&o)
	if err == nil && inside != nil {
		level, err = inside.prepare(&o)
	}
	if err != nil {
		return err
	}
	children, err := guard.TakeSignals()
	if err != nil {
		return err
	}
	launchers, err := raiseGuards(o)
	if err != nil {
		return err
	}
	table := &process.Table{
		Reaper: process.NewReaper(children), Launchers: launchers,
		OOM: &process.OOMCounter{FD: o.oomFD}, SpillDirs: []string{"/var/tmp", "/tmp"},
	}
	o.egress.Guarded = !o.unguarded
	outside, err := egress.Serve(o.egress)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	listener, err := open(o, token, outside, failed, inside)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := guest.New(table)
	if inside != nil {
		server.LateRoot = inside.root.Enter
	}
	server.EgressPort = o.egress.Port
	server.Lease.Set(guest.Terms{RemainingMs: o.waitMs})
	go func() { failed <- server.Serve(listener) }()
	ready.serving(level)
	expired := make(chan struct{})
	go func() {
		server.Lease.Wait()
		close(expired)
	}()
	abandoned := make(chan struct{})
	if o.parentFD >= 0 {
		go func() {
			parent := os.NewFile(uintptr(o.parentFD), "parent")
			defer parent.Close()
			if n, _ := parent.Read(make([]byte, 1)); n == 0 {
				close(abandoned)
			}
		}()
	}
	select {
	case err := <-failed:
		if errors.Is(err, errStreamOver) {
			table.KillAll()
		}
		return err
	case <-abandoned:
		return errors.New("podhost ended before the sandbox was ready")
	case <-expired:
		table.KillAll()
		return nil
	}
}

// raiseGuards puts every defence in place. The order matters: each step needs privileges that a later one
// drops.
func raiseGuards(o options) (launchers process.Launchers, err error) {
	if err := descriptor.SealInherited(); err != nil {
		return launchers, fmt.Errorf("seal descriptors: %w", err)
	}
	if o.unguarded {
		return process.NewLaunchers(o.payloadFD, false)
	}
	if err := guard.Undumpable(); err != nil {
		return launchers, fmt.Errorf("clear the dumpable flag: %w", err)
	}
	if o.docker {
		// SECURITY: programs of root can take podd over. That gives them nothing outside: the kernel is the
		// sandbox's own, and the server and the egress process trust nothing that podd says.
		return process.NewLaunchers(o.payloadFD, false)
	}
	if o.narrow {
		if err := kernelfs.Narrow(); err != nil {
			return launchers, fmt.Errorf("narrow %w", err)
		}
	}
	if o.stdio || o.streams != "" {
		canStrip, err := guard.CanStrip()
		if err != nil {
			return launchers, fmt.Errorf("ask for the capabilities: %w", err)
		}
		if !canStrip {
			return raiseGuardsInContainer(o)
		}
	}
	var keep uint64
	var also []int
	if o.arrivalsFD >= 0 {
		// SECURITY: gVisor's kernel refuses the call without the capability, which no payload has.
		keep, also = capability.GVisorRenewal, []int{unix.SYS_SETHOSTNAME}
	}
	if err := seccomp.Install(also...); err != nil {
		return launchers, fmt.Errorf("install the seccomp filter: %w", err)
	}
	if launchers, err = process.NewLaunchers(o.payloadFD, true); err != nil {
		return launchers, err
	}
	return launchers, guard.DropCapabilities(keep)
}

// raiseGuardsInContainer does the same with only the capabilities that a container engine grants.
func raiseGuardsInContainer(o options) (launchers process.Launchers, err error) {
	if err := guard.LimitPrivileges(); err != nil {
		return launchers, err
	}
	if err := seccomp.Install(); err != nil {
		return launchers, fmt.Errorf("install the seccomp filter: %w", err)
	}
	if launchers, err = process.NewLaunchers(o.payloadFD, false); err != nil {
		return launchers, err
	}
	return launchers, launchers.Strict.Prepare(guard.LimitThread)
}
