// Package serve speaks podhost's protocol: it accepts clients at a Unix socket, runs their requests and sends
// events to all of them. What a request does is its Handler's business.
package serve

import (
	"log"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/random"
	"agentpod/native/internal/unixsocket"
)

const (
	maxConnections = 64
	// maxRequests is the number of requests that run at a time. A client that sends more waits.
	maxRequests = 32
	// stopTimeout is how long running requests may take after podhost was told to stop.
	stopTimeout = 15 * time.Second
)

// A Handler performs requests, several at a time.
type Handler interface {
	// IsLong reports whether a request reads or writes file by file.
	IsLong(request hostproto.Request) bool
	Perform(request hostproto.Request) (any, error)
}

// A Server has the connections of one socket.
type Server struct {
	log      *log.Logger
	stopping <-chan struct{}
	handler  Handler
	events   events
	lanes    lanes
}

// New returns a server that serves until stopping is closed.
func New(logger *log.Logger, stopping <-chan struct{}) *Server {
	return &Server{log: logger, stopping: stopping, events: events{connections: map[*connection]struct{}{}}, lanes: newLanes()}
}

// Publish sends an event to every client. It never blocks.
func (s *Server) Publish(event any) { s.events.publish(event) }

// Connections returns the number of clients.
func (s *Server) Connections() int { return s.events.count() }

// Listen opens the socket.
func Listen(path string) (net.Listener, error) {
	file, err := unixsocket.Listen(path, 128)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// Serve runs requests until the server stops, then lets the running ones finish. The listener stays open.
func (s *Server) Serve(listener net.Listener, handler Handler) {
	s.handler = handler
	go func() {
		<-s.stopping
		if unixListener, ok := listener.(*net.UnixListener); ok {
			unixListener.SetDeadline(time.Now())
		}
	}()
	var serving sync.WaitGroup
	s.accept(listener, &serving)
	finished := make(chan struct{})
	go func() {
		serving.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(stopTimeout):
		s.log.Printf("stopping although requests are still running")
	}
}

func (s *Server) accept(listener net.Listener, serving *sync.WaitGroup) {
	work := make(chan struct{}, maxRequests)
	for {
		peer, err := listener.Accept()
		if err != nil {
			select {
			case <-s.stopping:
				return
			case <-time.After(50 * time.Millisecond):
				s.log.Printf("accept: %v", err)
				continue
			}
		}
		stream, ok := peer.(*net.UnixConn)
		if !ok || s.events.count() >= maxConnections || !isTrusted(stream) {
			peer.Close()
			continue
		}
		c := newConnection(s, stream, work)
		s.events.add(c)
		serving.Add(1)
		go func() {
			defer serving.Done()
			c.serve()
		}()
	}
}

// answer runs one request. A panic in one request does not end the others.
func (s *Server) answer(request hostproto.Request, place *slot) (reply answer) {
	reply.ID = request.ID
	defer func() {
		if cause := recover(); cause != nil {
			incident := random.Hex(6)
			s.log.Printf("incident %s: %s: %v\n%s", incident, request.Op, cause, debug.Stack())
			reply.Result = nil
			reply.Error = hostproto.Errorf(hostproto.Internal, "host.defect", "podhost failed; its log has incident %s", incident)
		}
	}()
	result, err := s.perform(request, place)
	if err != nil {
		reply.Error = hostproto.AsError(err)
		s.log.Printf("%s: %s: %s", request.Op, reply.Error.Reason, reply.Error.Message)
		return reply
	}
	reply.Result = result
	return reply
}

func (s *Server) perform(request hostproto.Request, place *slot) (any, error) {
	if s.handler.IsLong(request) {
		done, err := s.lanes.enterLong(place, s.stopping)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return s.handler.Perform(request)
}
