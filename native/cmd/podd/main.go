// podd is PID 1 of a sandbox: it starts processes, moves files and tunnels ports for the server outside. It speaks
// spec/guest-protocol.md on a listener it inherits, or over one byte stream. `podd connect` leads to such a stream.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/guard"
	"agentpod/native/internal/guest"
	"agentpod/native/internal/kernelfs"
	"agentpod/native/internal/process"
	"agentpod/native/internal/seccomp"
	"agentpod/native/internal/wayout"
)

const (
	exitFailed  = 1
	exitExpired = 79 // the lease is over; podhost reads it
	umask       = 0o022
	// gcPercent trades processor time for a small idle footprint.
	gcPercent = 30
)

type options struct {
	listenerFD, groupFD, oomFD, parentFD int
	out                                  wayout.Options
	waitMs                               int64
	narrow                               bool
	unguarded                            bool
	stdio                                bool
	streams, tokenFile                   string
}

func init() {
	// The first thread is kept for main. File operations change the identity of the thread they run on and then end
	// it, which the first thread cannot do.
	runtime.LockOSThread()
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("podd: ")
	if len(os.Args) > 1 && os.Args[1] == "connect" {
		connect(os.Args[2:])
		return
	}
	var o options
	flag.IntVar(&o.listenerFD, "listener-fd", 3, "inherited listening socket")
	flag.IntVar(&o.groupFD, "payload-group-fd", -1, "tasks or cgroup.threads of the payload group, open for writing")
	flag.IntVar(&o.oomFD, "oom-events-fd", -1, "memory.events or memory.oom_control of the sandbox, open for reading")
	flag.IntVar(&o.out.DoorFD, "door-fd", -1, "listening TCP socket where what wants to leave arrives")
	flag.IntVar(&o.out.OutFD, "out-fd", -1, "listening unix socket where the egress process dials in")
	flag.IntVar(&o.out.DNSFD, "dns-fd", -1, "UDP socket of the resolver")
	flag.IntVar(&o.out.DNSOverTCPFD, "dns-tcp-fd", -1, "listening TCP socket of the resolver")
	flag.IntVar(&o.parentFD, "parent-fd", -1, "pipe from podhost: its end means to leave, a byte on it means to stay")
	flag.Int64Var(&o.waitMs, "wait-ms", 0, "leave when nobody has said within this time what the sandbox is")
	flag.BoolVar(&o.narrow, "narrow-kernel-files", false, "leave of /sys and /proc what programs need; in a mount namespace of podd's own alone")
	flag.BoolVar(&o.unguarded, "unguarded", false, "no guards and no peer check, for tests outside a sandbox")
	flag.BoolVar(&o.stdio, "stdio", false, "serve HTTP/2 on stdin and stdout, in place of a listening socket, until they end")
	flag.StringVar(&o.streams, "streams", "", "serve HTTP/2 on connections to this abstract unix socket (@NAME), in place of a listening socket")
	flag.StringVar(&o.tokenFile, "token-file", "", "what a connection of --streams has to know; read and removed at once")
	flag.IntVar(&o.out.DoorPort, "door", 0, "port of 127.0.0.1 where what wants to leave arrives, where no door is inherited")
	flag.Parse()
	err := run(o)
	switch {
	case err == nil:
		os.Exit(exitExpired)
	case errors.Is(err, errStreamOver):
		os.Exit(0)
	}
	fail(err)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "podd:", err)
	os.Exit(exitFailed)
}

// run serves until the lease is over.
func run(o options) error {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(gcPercent)
	unix.Umask(umask)
	token, err := readToken(o)
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
	o.out.Guarded = !o.unguarded
	park, err := wayout.Serve(o.out)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	listener, err := open(o, token, park, failed)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := guest.New(table)
	server.DoorPort = o.out.DoorPort
	server.Lease.Set(guest.Terms{RemainingMs: o.waitMs})
	go func() { failed <- server.Serve(listener) }()
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
		return errors.New("podhost has ended before this was a sandbox")
	case <-expired:
		table.KillAll()
		return nil
	}
}

// raiseGuards puts every defence in place, in the one order that works: each step needs what a later one gives up.
func raiseGuards(o options) (launchers process.Launchers, err error) {
	if err := guard.SealDescriptors(); err != nil {
		return launchers, fmt.Errorf("seal descriptors: %w", err)
	}
	if o.unguarded {
		return process.NewLaunchers(o.groupFD, false)
	}
	if err := guard.Undumpable(); err != nil {
		return launchers, fmt.Errorf("clear the dumpable flag: %w", err)
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
			return raiseHeldGuards(o)
		}
	}
	if err := seccomp.Install(); err != nil {
		return launchers, fmt.Errorf("install the seccomp filter: %w", err)
	}
	if launchers, err = process.NewLaunchers(o.groupFD, true); err != nil {
		return launchers, err
	}
	return launchers, guard.DropCapabilities()
}

// raiseHeldGuards does the same with no more than the capabilities that a container engine grants.
func raiseHeldGuards(o options) (launchers process.Launchers, err error) {
	if err := guard.HoldPrivileges(); err != nil {
		return launchers, err
	}
	if err := seccomp.Install(); err != nil {
		return launchers, fmt.Errorf("install the seccomp filter: %w", err)
	}
	if launchers, err = process.NewLaunchers(o.groupFD, false); err != nil {
		return launchers, err
	}
	return launchers, launchers.Strict.Prepare(guard.HoldThread)
}
