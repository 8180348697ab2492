package main

import (
	"errors"
	"net"
	"os"

	_ "agentpod/native/internal/early"
	"agentpod/native/internal/guest"
	"agentpod/native/internal/streams"
	"agentpod/native/internal/wayout"
)

var errStreamOver = errors.New("the stream has ended")

// readToken checks how podd shall be reached, and takes the token before anything can run.
func readToken(o options) (string, error) {
	switch {
	case o.stdio && o.streams != "":
		return "", errors.New("--stdio and --streams exclude each other")
	case o.streams == "" && o.tokenFile != "":
		return "", errors.New("--token-file goes with --streams")
	case o.streams == "":
		return "", nil
	case o.tokenFile == "":
		return "", errors.New("--streams needs --token-file")
	}
	return streams.ReadToken(o.tokenFile)
}

// open makes the listener of podd's server: the inherited socket, or what arrives by streams.
func open(o options, token string, park wayout.Park, failed chan<- error) (net.Listener, error) {
	if !o.stdio && o.streams == "" {
		return guest.Listen(o.listenerFD, !o.unguarded)
	}
	queue := streams.NewQueue()
	doors := streams.Doors{API: queue.Hand, Egress: park}
	if o.stdio {
		conn, err := streams.Stdio()
		if err != nil {
			return nil, err
		}
		go func() {
			doors.Serve(conn)
			failed <- errStreamOver
		}()
		return guest.Bound(queue), nil
	}
	listener, err := streams.Listen(o.streams, token, doors)
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
