package connect

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxTimeout bounds Connect-Timeout-Ms, which has at most ten digits.
const maxTimeout = 9_999_999_999

// Timeout is the value of Connect-Timeout-Ms; zero means none.
func Timeout(r *http.Request) (time.Duration, error) {
	text := r.Header.Get("Connect-Timeout-Ms")
	if text == "" {
		return 0, nil
	}
	ms, err := strconv.ParseUint(text, 10, 64)
	if err != nil || ms > maxTimeout {
		return 0, Errorf(InvalidArgument, "Connect-Timeout-Ms %.20q is not a number of milliseconds", text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// Inbound reads the messages of one request stream.
type Inbound struct {
	body     io.Reader
	encoding string
}

// OpenInbound checks that a request is a stream.
func OpenInbound(r *http.Request) (*Inbound, error) {
	if err := requireType(r, streamType); err != nil {
		return nil, err
	}
	return &Inbound{body: r.Body, encoding: r.Header.Get("Connect-Content-Encoding")}, nil
}

// Next parses the next message. It returns io.EOF after the last one.
func (in *Inbound) Next(into any) error {
	flags, payload, err := readFrame(in.body)
	if err != nil {
		return err
	}
	if flags&flagEnd != 0 {
		return io.EOF
	}
	if flags&flagCompressed != 0 {
		if payload, err = decompress(payload, in.encoding); err != nil {
			return err
		}
	}
	return Decode(payload, into)
}

// ReadStream opens the request of a server stream and parses the one message it holds.
func ReadStream(r *http.Request, into any) error {
	in, err := OpenInbound(r)
	if err != nil {
		return err
	}
	if err := in.Next(into); err == io.EOF {
		return Errorf(InvalidArgument, "the stream contains no message")
	} else if err != nil {
		return err
	}
	// net/http notices a client that disconnects only after the request is read to its end.
	if n, err := io.Copy(io.Discard, io.LimitReader(r.Body, frameHeader+1)); err != nil || n > frameHeader {
		return Errorf(InvalidArgument, "the stream contains more than one message")
	}
	return nil
}

// Outbound writes the messages of one answer stream. It belongs to one goroutine.
type Outbound struct {
	w     http.ResponseWriter
	ctx   context.Context
	began bool
}

// NewOutbound makes the answer stream of a call whose context is ctx.
func NewOutbound(ctx context.Context, w http.ResponseWriter) *Outbound {
	return &Outbound{w: w, ctx: ctx}
}

// SendWith appends one message by hand and sends it at once.
func (out *Outbound) SendWith(appendMessage func([]byte) []byte) error {
	return out.write(0, appendMessage)
}

// Send marshals one message and sends it at once.
func (out *Outbound) Send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return out.SendWith(func(buf []byte) []byte { return append(buf, text...) })
}

// Close ends the stream, with an error if there is one. Without Close the client sees a broken stream.
func (out *Outbound) Close(err error) {
	var end struct {
		Error *wireError `json:"error,omitempty"`
	}
	if err != nil {
		e := AsError(err)
		end.Error = &wireError{e.Code, e.Message}
	}
	text, _ := json.Marshal(end)
	out.write(flagEnd, func(buf []byte) []byte { return append(buf, text...) })
}

// frames are pooled, so that an idle stream holds no buffer.
var frames = sync.Pool{New: func() any { return new([]byte) }}

func (out *Outbound) write(flags byte, appendMessage func([]byte) []byte) error {
	if err := out.ctx.Err(); err != nil {
		return err
	}
	buffer := frames.Get().(*[]byte)
	defer frames.Put(buffer)
	*buffer = endFrame(appendMessage(beginFrame((*buffer)[:0], flags)))
	if !out.began {
		out.began = true
		out.w.Header().Set("Content-Type", streamType)
	}
	if _, err := out.w.Write(*buffer); err != nil {
		return err
	}
	out.w.(http.Flusher).Flush()
	return nil
}
