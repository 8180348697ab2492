package main

import (
	"fmt"
	"net"

	"agentpod/native/internal/arrivals"
	"agentpod/native/internal/egress"
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
	return useNetwork(o, netns.SetupGVisor())
}

// listen returns the listener of podd's server. Every connection comes from the supervisor, so none of them
// is checked: no program inside has a socket that leads here.
func (g *gvisorInside) listen(addConnection egress.AddConnection, failed chan<- error) net.Listener {
	queue := streams.NewQueue()
	go func() {
		failed <- arrivals.Receive(g.link, func(kind arrivals.Kind, conn *net.UnixConn) {
			switch {
			case conn == nil:
			case kind == arrivals.API:
				queue.Put(conn)
			case kind == arrivals.Egress && addConnection != nil:
				addConnection(conn)
			default:
				conn.Close()
			}
		})
	}()
	return guest.Bound(queue)
}
