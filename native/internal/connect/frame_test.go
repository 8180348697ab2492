package connect

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func frame(flags byte, text string) []byte {
	return endFrame(append(beginFrame(nil, flags), text...))
}

func TestFramesReadBackAsWritten(t *testing.T) {
	stream := append(frame(0, `{"a":1}`), frame(flagEnd, `{}`)...)
	r := bytes.NewReader(stream)
	for _, want := range []struct {
		flags byte
		text  string
	}{{0, `{"a":1}`}, {flagEnd, `{}`}} {
		flags, payload, err := readFrame(r)
		if err != nil || flags != want.flags || string(payload) != want.text {
			t.Fatalf("got %d %q %v, want %d %q", flags, payload, err, want.flags, want.text)
		}
	}
	if _, _, err := readFrame(r); err != io.EOF {
		t.Fatalf("after the last frame: %v", err)
	}
}

func TestBadFramesAreRefused(t *testing.T) {
	for name, stream := range map[string][]byte{
		"a cut header":       {0, 0},
		"a cut payload":      frame(0, "hello")[:7],
		"unknown flags":      frame(0x80, "{}"),
		"a length past 4 MB": {0, 0xff, 0xff, 0xff, 0xff},
	} {
		_, _, err := readFrame(bytes.NewReader(stream))
		var known *Error
		if !errors.As(err, &known) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frame(0, `{"process":{"cmd":"true"}}`))
	f.Add([]byte{0, 0, 0, 0, 9, '{'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			_, payload, err := readFrame(r)
			if err != nil {
				return
			}
			if len(payload) > MaxMessage {
				t.Fatalf("a payload of %d bytes", len(payload))
			}
			var into map[string]any
			if err := Decode(payload, &into); err != nil && AsError(err).Code != InvalidArgument {
				t.Fatalf("decode: %v", err)
			}
		}
	})
}
