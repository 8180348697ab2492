// Package guest serves podd's protocol (spec/guest-protocol.md): envd's services, and AgentPod's own under
// /agentpod/.
package guest

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/files"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/process"
	"agentpod/native/internal/trust"
)

const (
	headerTimeout = 10 * time.Second
	keptAlive     = 5 * time.Minute
	maxHeader     = 64 << 10
)

// Server answers every call. Make it with New.
type Server struct {
	Lease *Lease
	// EgressPort is the port where connections that leave the sandbox arrive, if it is not the usual one.
	EgressPort int
	// LateRoot gives the sandbox its root, where nothing outside can; nil elsewhere.
	LateRoot  func(lateroot.Order) error
	processes *process.Table
	watchers  *files.Watchers
	settings  settings
	// started is when podd became this sandbox. podd may have waited in a blank shell before.
	started atomic.Pointer[time.Time]
	begun   sync.Once
	local   sync.Once
	// isSet: settings have arrived.
	isSet atomic.Bool
	// prepared is what PUT /agentpod/root has prepared for the first settings.
	prepared atomic.Pointer[trust.Prepared]
	// trusted are the anchors of the last settings.
	trusted atomic.Pointer[trust.Anchors]
	cpu     cpuMeter
	routes  map[string]route
}

type route struct {
	handle http.HandlerFunc
	// silent calls are the server's own and do not count as use of the sandbox.
	silent bool
}

// New returns a server for a table of processes.
func New(processes *process.Table) *Server {
	s := &Server{Lease: newLease(), processes: processes, watchers: files.NewWatchers()}
	s.begin()
	s.settings.user = "user"
	s.routes = map[string]route{
		"GET /health":             {handle: s.health, silent: true},
		"GET /metrics":            {handle: s.metrics, silent: true},
		"GET /envs":               {handle: s.envs},
		"GET /files":              {handle: s.download},
		"POST /files":             {handle: s.upload},
		"PUT /agentpod/init":      {handle: s.init, silent: true},
		"PUT /agentpod/root":      {handle: s.prepareRoot, silent: true},
		"PUT /agentpod/late-root": {handle: s.enterRoot, silent: true},
		"PUT /agentpod/lease":     {handle: s.renew, silent: true},
		"GET /agentpod/usage":     {handle: s.usage, silent: true},
		"GET /agentpod/processes": {handle: s.listAll},
		"POST /agentpod/attach":   {handle: s.attach},
		"POST /agentpod/input":    {handle: s.input},
		"GET /agentpod/tunnel":    {handle: s.tunnel},
		"POST /agentpod/tar":      {handle: s.unpack},
		"GET /agentpod/tar":       {handle: s.pack},
	}
	s.addProcessService()
	s.addFilesystemService()
	return s
}

func (s *Server) begin() {
	now := time.Now()
	s.started.Store(&now)
}

// Serve answers connections until the listener closes.
func (s *Server) Serve(listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keptAlive,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.Default(),
	}
	return server.Serve(listener)
}

// ServeHTTP finds the route. The answer to an unknown one is JSON too.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := s.routes[r.Method+" "+r.URL.Path]
	if !ok {
		connect.WriteError(w, s.noRoute(r))
		return
	}
	if !route.silent {
		defer s.Lease.Enter()()
	}
	route.handle(w, r)
}

func (s *Server) noRoute(r *http.Request) error {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		if _, ok := s.routes[method+" "+r.URL.Path]; ok {
			e := connect.Errorf(connect.Unimplemented, "%.200q needs the method %s", r.URL.Path, method)
			e.Status = http.StatusMethodNotAllowed
			return e
		}
	}
	e := connect.Errorf(connect.Unimplemented, "there is no call %s %.200q", r.Method, r.URL.Path)
	e.Status = http.StatusNotFound
	return e
}

// unary turns a function of one parsed message into a handler.
func unary[In, Out any](serve func(*http.Request, *In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		timeout, err := connect.Timeout(r)
		if err == nil {
			err = connect.ReadUnary(r, &in)
		}
		if err != nil {
			connect.WriteError(w, err)
			return
		}
		if timeout > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		out, err := serve(r, &in)
		connect.WriteUnary(w, out, err)
	}
}

type empty struct{}
