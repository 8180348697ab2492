package guest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/process"
	"agentpod/native/internal/trust"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func (s *Server) envs(w http.ResponseWriter, _ *http.Request) {
	env, _, _, _ := s.settings.view()
	if env == nil {
		env = map[string]string{}
	}
	connect.WriteJSON(w, http.StatusOK, env)
}

// readStrict parses the body of AgentPod's own calls. Only the server sends these, so an unknown field is an
// error.
func readStrict(r *http.Request, into any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, connect.MaxMessage))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return connect.Errorf(connect.InvalidArgument, "the body cannot be parsed: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return connect.Errorf(connect.InvalidArgument, "the body has extra data at its end")
	}
	return nil
}

func (s *Server) init(w http.ResponseWriter, r *http.Request) {
	if !s.isSet.Swap(true) {
		// A machine that waited for its sandbox has run a program to be ready for others.
		s.processes.ForgetAll()
	}
	var request initRequest
	err := readStrict(r, &request)
	if err == nil {
		request.Trust, err = s.checkTrust(request.Trust)
	}
	if err == nil {
		err = s.settings.apply(request)
	}
	if err == nil && request.Lease != nil {
		err = s.setLease(*request.Lease)
	}
	if err == nil {
		s.setTrust(request.Trust)
	}
	if err == nil && request.Envd {
		s.local.Do(s.serveLocal)
	}
	s.begun.Do(s.begin)
	connect.WriteUnary(w, empty{}, err)
}

// checkTrust returns the anchors of a request. A request that only names them means those of the last
// settings.
func (s *Server) checkTrust(asked *trust.Anchors) (*trust.Anchors, error) {
	if asked == nil {
		return nil, nil
	}
	if !asked.IsOnlyName() {
		if err := asked.Check(); err != nil {
			return nil, connect.Errorf(connect.InvalidArgument, "%v", err)
		}
		return asked, nil
	}
	if known := s.trusted.Load(); known != nil && known.Name == asked.Name {
		return known, nil
	}
	return nil, connect.Errorf(connect.FailedPrecondition, "the sandbox has no certificates of the name %.100q", asked.Name)
}

// setTrust writes the certificates that programs trust. The first settings find files that are prepared. A
// sandbox whose memory was saved gets the same anchors again, which are in its files already.
func (s *Server) setTrust(anchors *trust.Anchors) {
	if before := s.trusted.Swap(anchors); before != nil && anchors != nil && before.IsSame(*anchors) {
		return
	}
	prepared := s.prepared.Swap(nil)
	switch {
	case prepared != nil && anchors != nil:
		prepared.Finish(*anchors)
	case prepared != nil:
		prepared.Undo()
	case anchors != nil:
		anchors.Write()
	}
}

// prepareRoot is for a shell that waits in the root of a new sandbox: it does what the settings would
// otherwise wait for. Nothing has run in the root, so the files have no other readers or writers.
func (s *Server) prepareRoot(w http.ResponseWriter, _ *http.Request) {
	if s.isSet.Load() {
		connect.WriteError(w, connect.Errorf(connect.FailedPrecondition, "the sandbox has its settings already"))
		return
	}
	s.prepared.Store(trust.Prepare())
	w.WriteHeader(http.StatusNoContent)
}

// lateRoot is the body of PUT /agentpod/late-root.
type lateRoot struct {
	lateroot.Order
	// Files is the limit on open files of podd and of all that it starts; 0 to keep the present one.
	Files uint64 `json:"files"`
}

// enterRoot is for a shell that waits in the blank root, where podhost cannot swap roots itself.
func (s *Server) enterRoot(w http.ResponseWriter, r *http.Request) {
	var request lateRoot
	err := readStrict(r, &request)
	switch {
	case err != nil:
	case s.LateRoot == nil || s.isSet.Load():
		err = connect.Errorf(connect.FailedPrecondition, "the sandbox has its root already")
	default:
		if err = s.LateRoot(request.Order); err == nil && request.Files > 0 {
			// This function of package syscall also makes the limit that of programs.
			err = syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: request.Files, Max: request.Files})
		}
	}
	connect.WriteUnary(w, empty{}, err)
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) {
	var terms Terms
	err := readStrict(r, &terms)
	if err == nil {
		err = s.setLease(terms)
	}
	connect.WriteUnary(w, empty{}, err)
}

func (s *Server) setLease(terms Terms) error {
	if !s.Lease.Set(terms) {
		return connect.Errorf(connect.InvalidArgument, "the terms of the lease are out of range")
	}
	return nil
}

type processInfo struct {
	Pid         int            `json:"pid"`
	Tag         string         `json:"tag,omitempty"`
	Config      process.Config `json:"config"`
	StartedAt   time.Time      `json:"startedAt"`
	EndedAt     *time.Time     `json:"endedAt,omitempty"`
	ExitCode    *int           `json:"exitCode,omitempty"`
	Signal      string         `json:"signal,omitempty"`
	OOMKilled   bool           `json:"oomKilled,omitempty"`
	OutputBytes connect.Int64  `json:"outputBytes"`
	StdinBytes  connect.Int64  `json:"stdinBytes"`
}

// input writes to a process's stdin. The caller gives the offset of the data in all the input.
func (s *Server) input(w http.ResponseWriter, r *http.Request) {
	p, err := s.takeRawInput(r)
	if err != nil {
		connect.WriteError(w, err)
		return
	}
	connect.WriteJSON(w, http.StatusOK, map[string]connect.Int64{"stdinBytes": connect.Int64(p.Taken())})
}

func (s *Server) takeRawInput(r *http.Request) (*process.Process, error) {
	query := r.URL.Query()
	offset, err := strconv.ParseInt(query.Get("offset"), 10, 64)
	if err != nil || offset < 0 {
		return nil, connect.Errorf(connect.InvalidArgument, "offset %.40q is not a number of bytes", query.Get("offset"))
	}
	if query.Get("tag") == "" {
		return nil, connect.Errorf(connect.InvalidArgument, "the tag is missing")
	}
	p, err := s.processes.Find(process.Selector{Tag: query.Get("tag")})
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, connect.MaxMessage+1))
	if err != nil {
		return nil, connect.Errorf(connect.Canceled, "the input ended early: %v", err)
	}
	if len(data) > connect.MaxMessage {
		return nil, connect.TooLarge("the input is larger than %d bytes", connect.MaxMessage)
	}
	return p, p.WriteFrom(r.Context(), offset, data)
}

func (s *Server) listAll(w http.ResponseWriter, r *http.Request) {
	answer, tag := []processInfo{}, r.URL.Query().Get("tag")
	for _, p := range s.processes.All() {
		if tag != "" && p.Tag != tag {
			continue
		}
		info := processInfo{Pid: p.Pid, Tag: p.Tag, Config: p.Config, StartedAt: p.Started, OutputBytes: connect.Int64(p.Output.Size()),
			StdinBytes: connect.Int64(p.Taken())}
		if exit := p.Exit(); exit != nil {
			info.EndedAt, info.ExitCode, info.Signal, info.OOMKilled = &exit.At, &exit.Code, exit.Signal, exit.OOMKilled
		}
		answer = append(answer, info)
	}
	connect.WriteJSON(w, http.StatusOK, answer)
}
