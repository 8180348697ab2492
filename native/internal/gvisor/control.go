package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"agentpod/native/internal/unixsocket"
)

// gVisor's kernel answers calls on a socket in the directory of the run: JSON objects, one after the other.
// runsc uses it, too, but needs some twenty milliseconds to start for each call.
const (
	pauseCall  = "containerManager.Pause"
	resumeCall = "containerManager.Resume"

	controlTimeout = 20 * time.Second
	maxControl     = 64 << 10
)

// ask calls gVisor's kernel directly.
func (s *sandboxSupervisor) ask(method string) error {
	conn, err := unixsocket.Dial(filepath.Join(s.directory, "state", "runsc-"+s.name+".sock"), controlTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(controlTimeout))
	call := struct {
		Method string   `json:"method"`
		Arg    struct{} `json:"arg"`
	}{Method: method}
	if err := json.NewEncoder(conn).Encode(call); err != nil {
		return err
	}
	var answer struct {
		Success bool   `json:"success"`
		Err     string `json:"err"`
	}
	// SECURITY: a program that has broken out of its kernel inside may answer here.
	if err := json.NewDecoder(io.LimitReader(conn, maxControl)).Decode(&answer); err != nil {
		return err
	}
	if !answer.Success {
		return errors.New(answer.Err)
	}
	return nil
}

// pause stops every program inside.
func (s *sandboxSupervisor) pause() error {
	if err := s.ask(pauseCall); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// resume lets them run again.
func (s *sandboxSupervisor) resume() error {
	if err := s.ask(resumeCall); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}
