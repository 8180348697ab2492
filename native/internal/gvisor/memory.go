package gvisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"agentpod/native/internal/arrivals"
	"agentpod/native/internal/supervisor"
	"agentpod/native/internal/unixsocket"
)

// A control connection to the supervisor saves the memory of the sandbox. Each side writes lines of JSON:
//
//	{"op":"hold"}                        the sandbox stands still
//	{"op":"save","image":"/directory"}   its memory is in the directory, and it runs again
//	{"op":"save",...,"keep":true}        its memory is in the directory, and it still stands still
//	{"op":"wait"}                        earlier connections have ended, and the sandbox runs
//	{"op":"pause"}                       the sandbox stands still until it is resumed
//	{"op":"resume"}                      it runs
//	{"op":"restore","image":...}         a sandbox that awaits its memory runs; "hostname" for a copy
//
// If the connection ends after a hold, the sandbox runs again. A pause outlives the connection.
type order struct {
	Op    string `json:"op"`
	Image string `json:"image,omitempty"`
	Keep  bool   `json:"keep,omitempty"`
	// Hostname is that of a copy.
	Hostname string `json:"hostname,omitempty"`
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
func (s *sandboxSupervisor) control() {
	if s.controlFD < 0 {
		return
	}
	err := supervisor.Serve(os.NewFile(uintptr(s.controlFD), "control"), func(conn *net.UnixConn) {
		defer conn.Close()
		s.serveControl(conn)
	})
	fmt.Fprintln(os.Stderr, "control:", err)
}

func (s *sandboxSupervisor) serveControl(conn net.Conn) {
	isHeld := false
	defer func() {
		if isHeld {
			if err := s.resume(); err != nil {
				fmt.Fprintln(os.Stderr, "release:", err)
			}
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
			// runsc leaves the sandbox standing still, as it was before.
			err = s.call("checkpoint", "--leave-running", "--compression=none", "--image-path="+asked.Image, s.name)
			if asked.Keep && err == nil {
				break
			}
			if resumed := s.resume(); err == nil {
				err = resumed
			}
			isHeld = false
		case "restore":
			err = s.restore(asked.Image, asked.Hostname)
		case "wait":
		case "pause":
			if !s.isPaused {
				err = s.pause()
				s.isPaused = err == nil
			}
		case "resume":
			if s.isPaused {
				err = s.resume()
				s.isPaused = err != nil
			}
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
func (s *sandboxSupervisor) hold() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.signal(arrivals.Quiesce, "", arrivals.Quiesced); err != nil {
		return err
	}
	return s.pause()
}

// signal sends podd a message and waits for its answer. The caller holds sending.
func (s *sandboxSupervisor) signal(kind arrivals.Kind, text, want string) error {
	if err := arrivals.Signal(s.link, kind, text); err != nil {
		return err
	}
	select {
	case answer := <-s.answers:
		if answer != want {
			return errors.New(answer)
		}
		return nil
	case <-time.After(quiesceTimeout):
		return fmt.Errorf("podd did not answer %q", rune(kind))
	}
}

// call runs runsc.
func (s *sandboxSupervisor) call(args ...string) error {
	output, err := s.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("runsc %s: %v: %s", args[0], err, summary(string(output)))
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

// SaveHeld is Save, but the sandbox stands still until it is released. After an error it runs again.
func (h *Hold) SaveHeld(image string) error {
	return h.order(order{Op: "save", Image: image, Keep: true}, saveTimeout)
}

// AwaitReleased returns when a sandbox that an earlier podhost held runs again.
func AwaitReleased(control string) error { return tell(control, "wait") }

// Pause stops every program of a sandbox until Resume. Both may be repeated. The control groups of a gVisor
// sandbox must not be frozen while its programs run: a thread that is stopped in the middle of a change to or
// from gVisor's kernel continues with wrong registers, and its program ends by SIGSEGV.
func Pause(control string) error { return tell(control, "pause") }

// Resume lets the programs of a paused sandbox run again.
func Resume(control string) error { return tell(control, "resume") }

// Restore starts a sandbox that awaits its memory. hostname is empty if it keeps that of the memory.
func Restore(control, image, hostname string) error {
	return send(control, order{Op: "restore", Image: image, Hostname: hostname}, saveTimeout)
}

func tell(control, op string) error { return send(control, order{Op: op}, holdTimeout) }

func send(control string, asked order, limit time.Duration) error {
	conn, err := unixsocket.Dial(control, quiesceTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	h := &Hold{conn: conn, lines: bufio.NewReaderSize(conn, 2*maxLine)}
	return h.order(asked, limit)
}

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
