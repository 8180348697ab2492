package guest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/process"
)

const (
	defaultKeepalive = 90 * time.Second
	maxKeepalive     = time.Hour
)

// start runs a process and follows it. If the client disconnects, the process keeps running. A timeout limits
// the command itself, as in envd, whether or not the client still listens.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var in startRequest
	s.stream(w, r, &in, func() (follower, error) {
		p, reader, err := s.launch(r, in)
		if timeout, _ := connect.Timeout(r); err == nil && timeout > 0 {
			time.AfterFunc(timeout, func() { p.Signal(unix.SIGKILL) })
		}
		return follower{process: p, reader: reader}, err
	})
}

// connect follows a process from now on.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	var in selectRequest
	s.stream(w, r, &in, func() (follower, error) {
		p, err := s.processes.Find(in.Process)
		if err != nil {
			return follower{}, err
		}
		return follower{process: p, reader: p.Output.Reader(p.Output.Size())}, nil
	})
}

// attach follows a process from any offset of its output.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	var in attachRequest
	s.stream(w, r, &in, func() (follower, error) {
		p, err := s.processes.Find(in.Process)
		if err != nil {
			return follower{}, err
		}
		if in.Stdout != nil {
			reader := p.Output.StdoutReader(int64(*in.Stdout))
			if reader == nil {
				return follower{}, connect.Errorf(connect.InvalidArgument, "stdout does not have %d bytes yet", *in.Stdout)
			}
			return follower{process: p, reader: reader}, nil
		}
		if size := p.Output.Size(); in.Offset < 0 || int64(in.Offset) > size {
			return follower{}, connect.Errorf(connect.InvalidArgument, "offset %d is outside the %d bytes of output", in.Offset, size)
		}
		return follower{process: p, reader: p.Output.Reader(int64(in.Offset))}, nil
	})
}

// stream parses the request of a process stream, opens it and follows it to its end.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, in any, open func() (follower, error)) {
	ctx, cancel, err := openStream(r, in)
	if err != nil && connect.AsError(err).Status != 0 {
		connect.WriteError(w, err)
		return
	}
	defer cancel()
	out := connect.NewOutbound(r.Context(), w)
	var f follower
	if err == nil {
		f, err = open()
	}
	if err != nil {
		out.Close(err)
		return
	}
	defer f.reader.Close()
	f.out, f.keepalive = out, keepaliveOf(r)
	f.follow(ctx)
}

// openStream parses the one message of a server stream and puts the call's timeout into a context. An error
// that has its own HTTP status is sent as that status; all others are sent in the stream.
func openStream(r *http.Request, in any) (context.Context, context.CancelFunc, error) {
	timeout, err := connect.Timeout(r)
	if err == nil {
		err = connect.ReadStream(r, in)
	}
	if timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		return ctx, cancel, err
	}
	return r.Context(), func() {}, err
}

// timeoutError is nil unless the timeout ended ctx.
func timeoutError(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return connect.Errorf(connect.DeadlineExceeded, "the call timed out")
	}
	return nil
}

func keepaliveOf(r *http.Request) time.Duration {
	seconds, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval"))
	if interval := time.Duration(seconds) * time.Second; err == nil && interval > 0 && interval <= maxKeepalive {
		return interval
	}
	return defaultKeepalive
}

// follower sends the events of one process to one client.
type follower struct {
	process   *process.Process
	reader    *process.Reader
	out       *connect.Outbound
	keepalive time.Duration
}

var chunks = sync.Pool{New: func() any { return new([process.ChunkLimit]byte) }}

// follow sends start, output and end. If the client has disconnected it returns without an error.
func (f *follower) follow(ctx context.Context) {
	start := `{"event":{"start":{"pid":` + strconv.Itoa(f.process.Pid) + `}}}`
	if f.sendText(start) != nil {
		return
	}
	for {
		wait, ended, err := f.sendHeld(ctx)
		switch {
		case err == context.DeadlineExceeded:
			f.out.Close(timeoutError(ctx))
			return
		case err != nil:
			return
		case ended:
			<-f.process.Done()
			if f.sendText(endEvent(f.process.Exit())) == nil {
				f.out.Close(nil)
			}
			return
		}
		f.await(ctx, wait)
	}
}

// sendHeld sends what the journal has and returns what to wait for.
func (f *follower) sendHeld(ctx context.Context) (wait <-chan struct{}, ended bool, err error) {
	buffer := chunks.Get().(*[process.ChunkLimit]byte)
	defer chunks.Put(buffer)
	for err = ctx.Err(); err == nil; {
		chunk := f.reader.Next(buffer[:])
		switch {
		case chunk.Ended || chunk.Wait != nil:
			return chunk.Wait, chunk.Ended, nil
		case chunk.GapTo > 0:
			err = f.sendText(`{"event":{"gap":{"from":"` + strconv.FormatInt(chunk.GapFrom, 10) + `","to":"` + strconv.FormatInt(chunk.GapTo, 10) + `","stdout":"` + strconv.FormatInt(chunk.Stdout, 10) + `"}}}`)
		default:
			err = f.out.SendWith(func(buf []byte) []byte { return appendData(buf, chunk.Kind, chunk.Data) })
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	return nil, false, err
}

// await blocks until there is more to send or ctx ends. Meanwhile it keeps the connection from looking dead.
func (f *follower) await(ctx context.Context, wait <-chan struct{}) {
	defer f.reader.Waited()
	ping := time.NewTicker(f.keepalive)
	defer ping.Stop()
	for {
		select {
		case <-wait:
			return
		case <-ctx.Done():
			return
		case <-ping.C:
			if f.sendText(`{"event":{"keepalive":{}}}`) != nil {
				return
			}
		}
	}
}

func (f *follower) sendText(text string) error {
	return f.out.SendWith(func(buf []byte) []byte { return append(buf, text...) })
}

func appendData(buf []byte, kind process.Kind, data []byte) []byte {
	buf = append(buf, `{"event":{"data":{"`...)
	buf = append(buf, kind...)
	buf = append(buf, `":"`...)
	size := base64.StdEncoding.EncodedLen(len(data))
	if cap(buf)-len(buf) < size {
		buf = append(make([]byte, 0, len(buf)+size+16), buf...)
	}
	base64.StdEncoding.Encode(buf[len(buf):len(buf)+size], data)
	return append(buf[:len(buf)+size], `"}}}`...)
}

// endEvent formats status and error like envd, which uses the words of Go's os.ProcessState.
func endEvent(exit *process.Exit) string {
	type end struct {
		ExitCode  int    `json:"exitCode,omitempty"`
		Exited    bool   `json:"exited,omitempty"`
		Status    string `json:"status"`
		Error     string `json:"error,omitempty"`
		Signal    string `json:"signal,omitempty"`
		OOMKilled bool   `json:"oomKilled,omitempty"`
	}
	e := end{ExitCode: exit.Code, Exited: exit.Signal == "", Signal: exit.Signal, OOMKilled: exit.OOMKilled}
	e.Status = "exit status " + strconv.Itoa(exit.Code)
	if exit.Signal != "" {
		e.Status = "signal: " + unix.SignalNum(exit.Signal).String()
	}
	if exit.Code != 0 {
		e.Error = e.Status
	}
	text, _ := json.Marshal(map[string]any{"event": map[string]any{"end": e}})
	return string(text)
}
