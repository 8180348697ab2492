package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/arrivals"
	"agentpod/native/internal/capability"
	"agentpod/native/internal/egress"
	"agentpod/native/internal/guard"
	"agentpod/native/internal/guest"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/streams"
)

// gvisorInside is what podd has in a gVisor sandbox instead of inherited sockets: a link on which its
// supervisor hands connections in, and a helper that swaps the root.
type gvisorInside struct {
	link *net.UnixConn
	root *lateroot.Helper
	// redirection is lost when the sandbox is restored.
	redirection *netns.GVisorRedirection
}

// enterGVisor returns nil outside of gVisor.
func enterGVisor(o *options) (*gvisorInside, error) {
	if o.arrivalsFD < 0 {
		return nil, nil
	}
	link, err := arrivals.Open(o.arrivalsFD)
	if err != nil {
		return nil, fmt.Errorf("arrivals: %w", err)
	}
	return &gvisorInside{link: link}, nil
}

// prepare does what needs capabilities that podd drops before it serves.
func (g *gvisorInside) prepare(o *options) (level netns.Level, err error) {
	if g.root, err = lateroot.Start(); err != nil {
		return level, fmt.Errorf("start the helper for the root: %w", err)
	}
	o.egress.HandedIn = true
	network, redirection := netns.SetupGVisor(o.docker)
	g.redirection = redirection
	return useNetwork(o, network)
}

// listen returns the listener of podd's server. Every connection comes from the supervisor, so none of them
// is checked: no program inside has a socket that leads here.
func (g *gvisorInside) listen(outside egress.Outside, failed chan<- error) net.Listener {
	queue := streams.NewQueue()
	go func() {
		failed <- arrivals.Receive(g.link, func(kind arrivals.Kind, conn *net.UnixConn, text string) {
			switch {
			case kind == arrivals.Quiesce:
				g.quiesce(outside)
			case kind == arrivals.Renew:
				g.renew(text)
			case conn == nil:
			case kind == arrivals.API:
				queue.Put(conn)
			case kind == arrivals.Egress && outside != nil:
				outside.Add(conn)
			default:
				conn.Close()
			}
		})
	}()
	return guest.Bound(queue)
}

// renew sets up the network of a restored sandbox, and gives a copy its host name.
func (g *gvisorInside) renew(hostname string) {
	answer := arrivals.Renewed
	err := guard.WithCapabilities(capability.GVisorRenewal, func() error {
		if err := g.redirection.Set(); err != nil || hostname == "" {
			return err
		}
		return os.NewSyscallError("sethostname", unix.Sethostname([]byte(hostname)))
	})
	if err != nil {
		answer = err.Error()
	}
	fmt.Fprintln(g.link, answer)
}

const (
	// quiesceTime is how long the owners of connections may take to close them.
	quiesceTime  = 3 * time.Second
	quiescePause = 2 * time.Millisecond
)

// quiesce closes every connection that was handed in, because gVisor cannot save a sandbox that has one.
// Clients connect again and continue at their offsets; connections to the outside end for both sides.
func (g *gvisorInside) quiesce(outside egress.Outside) {
	for end := time.Now().Add(quiesceTime); ; time.Sleep(quiescePause) {
		open := g.shutDown()
		if outside != nil {
			outside.Prune()
		}
		if open == 0 {
			fmt.Fprintln(g.link, arrivals.Quiesced)
			return
		}
		if time.Now().After(end) {
			fmt.Fprintf(g.link, "%d connections did not close\n", open)
			return
		}
	}
}

// shutDown ends the connections that were handed in, in both directions, and returns how many are still open.
// Their owners close them then.
func (g *gvisorInside) shutDown() (open int) {
	own := -1
	if raw, err := g.link.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { own = int(fd) })
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 1
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd == own {
			continue
		}
		// Nothing inside has a peer without a process.
		if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && peer.Pid == 0 && isUnixSocket(fd) {
			open++
			unix.Shutdown(fd, unix.SHUT_RDWR)
		}
	}
	return open
}

func isUnixSocket(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && domain == unix.AF_UNIX
}
