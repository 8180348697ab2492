package gvisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"agentpod/native/internal/arrivals"
	"agentpod/native/internal/unixsocket"
)

// A control connection to the supervisor saves the memory of the sandbox. Each side writes lines of JSON:
//
//	{"op":"hold"}                        the sandbox stands still
//	{"op":"save","image":"/directory"}   its memory is in the directory, and it runs again
//
// If the connection ends in between, the sandbox runs again.
type order struct {
	Op    string `json:"op"`
	Image string `json:"image,omitempty"`
}

type outcome struct {
	Error string `json:"error,omitempty"`
}

const (
	quiesceTimeout = 5 * time.Second
	holdTimeout    = 30 * time.Second
	saveTimeout    = 10 * time.Minute
)

// control serves control connections, one after the other.
func (s *supervisor) control() {
	if s.controlFD < 0 {
		return
	}
	file := os.NewFile(uintptr(s.controlFD), "control")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "control:", err)
		return
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		s.serveControl(conn)
		conn.Close()
	}
}

func (s *supervisor) serveControl(conn net.Conn) {
	isHeld := false
	defer func() {
		if isHeld {
			s.call("resume", s.name)
		}
	}()
	lines := bufio.NewReaderSize(conn, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		var asked order
		if err != nil || json.Unmarshal(line, &asked) != nil {
			return
		}
		switch asked.Op {
		case "hold":
			err = s.hold()
			isHeld = err == nil
		case "save":
			err = s.call("checkpoint", "--leave-running", "--compression=none", "--image-path="+asked.Image, s.name)
			if resumed := s.call("resume", s.name); err == nil {
				err = resumed
			}
			isHeld = false
		default:
			err = fmt.Errorf("there is no operation %q", asked.Op)
		}
		answer := outcome{}
		if err != nil {
			answer.Error = err.Error()
		}
		if json.NewEncoder(conn).Encode(answer) != nil {
			return
		}
	}
}

// hold closes the connections that were handed in, and stops every program inside. No connection is handed in
// meanwhile.
func (s *supervisor) hold() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := arrivals.Signal(s.link, arrivals.Quiesce); err != nil {
		return err
	}
	select {
	case answer := <-s.answers:
		if answer != arrivals.Quiesced {
			return errors.New(answer)
		}
	case <-time.After(quiesceTimeout):
		return errors.New("podd did not close its connections")
	}
	return s.call("pause", s.name)
}

// call runs runsc.
func (s *supervisor) call(args ...string) error {
	output, err := s.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("runsc %s: %v: %.1000s", args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

// A Hold is a sandbox that stands still, until it is saved or released.
type Hold struct {
	conn  net.Conn
	lines *bufio.Reader
}

// HoldStill stops every program of a sandbox whose supervisor listens at a path.
func HoldStill(control string) (*Hold, error) {
	conn, err := unixsocket.Dial(control, quiesceTimeout)
	if err != nil {
		return nil, err
	}
	h := &Hold{conn: conn, lines: bufio.NewReaderSize(conn, 2*maxLine)}
	if err := h.order(order{Op: "hold"}, holdTimeout); err != nil {
		conn.Close()
		return nil, err
	}
	return h, nil
}

// Save writes the memory to an empty directory. The sandbox runs again afterwards.
func (h *Hold) Save(image string) error { return h.order(order{Op: "save", Image: image}, saveTimeout) }

// Release lets the sandbox run again.
func (h *Hold) Release() { h.conn.Close() }

func (h *Hold) order(asked order, limit time.Duration) error {
	h.conn.SetDeadline(time.Now().Add(limit))
	if err := json.NewEncoder(h.conn).Encode(asked); err != nil {
		return err
	}
	line, err := h.lines.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("the supervisor did not answer: %w", err)
	}
	var answer outcome
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}
