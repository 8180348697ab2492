package main

import (
	"errors"
	"net"
	"os"

	"agentpod/native/internal/egress"
	"agentpod/native/internal/guest"
	"agentpod/native/internal/streams"
)

var errStreamOver = errors.New("the stream has ended")

// readToken checks the flags for the transport, and reads the token before any payload can run.
func readToken(o options) (string, error) {
	switch {
	case o.stdio && o.streams != "":
		return "", errors.New("--stdio and --streams cannot be combined")
	case o.streams == "" && o.tokenFile != "":
		return "", errors.New("--token-file needs --streams")
	case o.streams == "":
		return "", nil
	case o.tokenFile == "":
		return "", errors.New("--streams needs --token-file")
	}
	return streams.ReadToken(o.tokenFile)
}

// open returns the listener of podd's server: the inherited socket, or the connections that arrive by
// streams.
func open(o options, token string, outside egress.Outside, failed chan<- error, inside *gvisorInside) (net.Listener, error) {
	if inside != nil {
		return inside.listen(outside, failed), nil
	}
	if !o.stdio && o.streams == "" {
		return guest.Listen(o.listenerFD, !o.unguarded)
	}
	queue := streams.NewQueue()
	targets := streams.Targets{API: queue.Put}
	if outside != nil {
		targets.Egress = outside.Add
	}
	if o.stdio {
		conn, err := streams.Stdio()
		if err != nil {
			return nil, err
		}
		go func() {
			targets.Serve(conn)
			failed <- errStreamOver
		}()
		return guest.Bound(queue), nil
	}
	listener, err := streams.Listen(o.streams, token, targets)
	if err != nil {
		return nil, err
	}
	go func() { failed <- listener.Serve() }()
	return guest.Bound(queue), nil
}

// connect is `podd connect @NAME`.
func connect(args []string) {
	if len(args) != 1 {
		fail(errors.New("usage: podd connect @NAME"))
	}
	if err := streams.Connect(args[0], os.Stdin, os.Stdout); err != nil {
		fail(err)
	}
}
