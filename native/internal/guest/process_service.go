package guest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/process"
)

func (s *Server) addProcessService() {
	const service = "POST /process.Process/"
	s.routes[service+"Start"] = route{handle: s.start}
	s.routes[service+"Connect"] = route{handle: s.connect}
	s.routes[service+"List"] = route{handle: unary(s.list)}
	s.routes[service+"SendInput"] = route{handle: unary(s.sendInput)}
	s.routes[service+"StreamInput"] = route{handle: s.streamInput}
	s.routes[service+"CloseStdin"] = route{handle: unary(s.closeStdin)}
	s.routes[service+"SendSignal"] = route{handle: unary(s.sendSignal)}
	s.routes[service+"Update"] = route{handle: unary(s.update)}
}

type terminalRequest struct {
	Size process.Size `json:"size"`
}

type startRequest struct {
	Process *process.Config  `json:"process"`
	Pty     *terminalRequest `json:"pty"`
	Tag     string           `json:"tag"`
	Stdin   *bool            `json:"stdin"`
}

type selectRequest struct {
	Process process.Selector `json:"process"`
}

type attachRequest struct {
	Process process.Selector `json:"process"`
	Offset  connect.Int64    `json:"offset"`
	Stdout  *connect.Int64   `json:"stdout"`
}

type inputRequest struct {
	Process process.Selector `json:"process"`
	Input   struct {
		Stdin *connect.Bytes `json:"stdin"`
		Pty   *connect.Bytes `json:"pty"`
	} `json:"input"`
}

const maxTag = 256

// launch turns a parsed Start into a running process.
func (s *Server) launch(r *http.Request, in startRequest) (*process.Process, *process.Reader, error) {
	if in.Process == nil {
		return nil, nil, connect.Errorf(connect.InvalidArgument, "process is missing")
	}
	if len(in.Tag) > maxTag {
		return nil, nil, connect.Errorf(connect.InvalidArgument, "the tag is longer than %d bytes", maxTag)
	}
	user, err := s.settings.userOf(r)
	if err != nil {
		return nil, nil, err
	}
	env, _, workdir, sudo := s.settings.view()
	request := process.Request{
		Config: *in.Process, Tag: in.Tag, User: user, Env: env, Workdir: workdir, Sudo: sudo,
		// envd's first clients do not have this switch and expect to be able to write.
		Stdin: in.Stdin == nil || *in.Stdin,
	}
	if in.Pty != nil {
		request.Terminal = &in.Pty.Size
	}
	return s.processes.Start(request)
}

func (s *Server) list(*http.Request, *empty) (any, error) {
	type info struct {
		Config process.Config `json:"config"`
		Pid    int            `json:"pid"`
		Tag    string         `json:"tag,omitempty"`
	}
	var answer struct {
		Processes []info `json:"processes,omitempty"`
	}
	for _, p := range s.processes.All() {
		if p.Exit() == nil {
			answer.Processes = append(answer.Processes, info{p.Config, p.Pid, p.Tag})
		}
	}
	return answer, nil
}

func (s *Server) sendInput(r *http.Request, in *inputRequest) (empty, error) {
	p, err := s.processes.Find(in.Process)
	if err != nil {
		return empty{}, err
	}
	return empty{}, writeInput(r, p, in)
}

func writeInput(r *http.Request, p *process.Process, in *inputRequest) error {
	switch {
	case in.Input.Pty != nil:
		return p.Write(r.Context(), *in.Input.Pty, true)
	case in.Input.Stdin != nil:
		return p.Write(r.Context(), *in.Input.Stdin, false)
	}
	return connect.Errorf(connect.InvalidArgument, "input contains neither stdin nor pty")
}

// streamInput accepts input in any number of messages; the first names the process.
func (s *Server) streamInput(w http.ResponseWriter, r *http.Request) {
	in, err := connect.OpenInbound(r)
	if err != nil {
		connect.WriteError(w, err)
		return
	}
	out := connect.NewOutbound(r.Context(), w)
	if err := s.takeInput(r, in); err != nil {
		out.Close(err)
		return
	}
	out.Send(empty{})
	out.Close(nil)
}

func (s *Server) takeInput(r *http.Request, in *connect.Inbound) error {
	var p *process.Process
	for {
		var message struct {
			Start *selectRequest `json:"start"`
			Data  *inputRequest  `json:"data"`
		}
		err := in.Next(&message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		switch {
		case err != nil:
		case message.Start != nil:
			p, err = s.processes.Find(message.Start.Process)
		case message.Data != nil && p == nil:
			err = connect.Errorf(connect.InvalidArgument, "data comes before start")
		case message.Data != nil:
			err = writeInput(r, p, message.Data)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Server) closeStdin(_ *http.Request, in *selectRequest) (empty, error) {
	p, err := s.processes.Find(in.Process)
	if err != nil {
		return empty{}, err
	}
	return empty{}, p.CloseInput()
}

func (s *Server) sendSignal(_ *http.Request, in *struct {
	Process process.Selector `json:"process"`
	Signal  any              `json:"signal"`
}) (empty, error) {
	signal, err := parseSignal(in.Signal)
	if err != nil {
		return empty{}, err
	}
	p, err := s.processes.Find(in.Process)
	if err != nil {
		return empty{}, err
	}
	return empty{}, p.Signal(signal)
}

// parseSignal reads a proto3 enum: a name, or a number, which in envd's enum is the signal's own.
func parseSignal(value any) (syscall.Signal, error) {
	switch value := value.(type) {
	case string:
		if signal := unix.SignalNum(strings.TrimPrefix(value, "SIGNAL_")); signal != 0 {
			return signal, nil
		}
	case float64:
		if signal := syscall.Signal(value); float64(signal) == value && unix.SignalName(signal) != "" {
			return signal, nil
		}
	}
	return 0, connect.Errorf(connect.InvalidArgument, "%.40v is not a signal", value)
}

func (s *Server) update(_ *http.Request, in *struct {
	Process process.Selector `json:"process"`
	Pty     *terminalRequest `json:"pty"`
}) (empty, error) {
	p, err := s.processes.Find(in.Process)
	if err != nil || in.Pty == nil {
		return empty{}, err
	}
	return empty{}, p.Resize(in.Pty.Size)
}
