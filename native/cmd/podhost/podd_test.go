package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// poddClient speaks to podd over its socket.
func poddClient(socket string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
}

// initialize sends the first message of a server.
func initialize(t *testing.T, made map[string]any, body string) {
	t.Helper()
	request, _ := http.NewRequest("PUT", "http://podd/agentpod/init", strings.NewReader(body))
	response, err := poddClient(made["socket"].(string)).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != 200 {
		t.Fatalf("init: %d %s", response.StatusCode, text)
	}
}

// sh runs a script as root inside, and returns what it printed and its exit code.
func sh(t *testing.T, made map[string]any, script string) (output string, code int) {
	t.Helper()
	message, _ := json.Marshal(map[string]any{"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-c", "exec 2>&1; " + script}}, "stdin": false})
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	request, _ := http.NewRequest("POST", "http://podd/process.Process/Start", bytes.NewReader(frame))
	request.Header.Set("Content-Type", "application/connect+json")
	request.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("root:")))
	response, err := poddClient(made["socket"].(string)).Do(request)
	if err != nil {
		t.Errorf("start: %v", err)
		return "", -1
	}
	defer response.Body.Close()
	for {
		var header [5]byte
		if _, err := io.ReadFull(response.Body, header[:]); err != nil {
			t.Errorf("the stream was cut: %v", err)
			return output, -1
		}
		text := make([]byte, binary.BigEndian.Uint32(header[1:]))
		io.ReadFull(response.Body, text)
		var e struct {
			Event struct {
				Data *struct{ Stdout []byte }
				End  *struct{ ExitCode int }
			}
			Error any
		}
		json.Unmarshal(text, &e)
		switch {
		case header[0] == 2:
			if e.Error != nil {
				t.Errorf("%s", text)
			}
			return output, code
		case e.Event.Data != nil:
			output += string(e.Event.Data.Stdout)
		case e.Event.End != nil:
			code = e.Event.End.ExitCode
		}
	}
}
