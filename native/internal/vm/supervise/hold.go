package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"agentpod/native/internal/supervisor"
	"agentpod/native/internal/unixsocket"
	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

// A control connection to the supervisor is for podhost. Each side writes lines of JSON:
//
//	{"op":"sync"}     what programs have written is on the disk; they continue
//	{"op":"freeze"}   programs stand still and everything is on the disk, until {"op":"thaw"}
//	{"op":"hold"}     the same, and the machine stands still until the connection ends
//	{"op":"save"}     with the descriptor of a file: the state of a machine that stands still is in the file
//	{"op":"wait"}     the machine stands still until {"op":"become"}, with the identity of its sandbox
type controlOrder struct {
	Op       string          `json:"op"`
	Identity *order.Identity `json:"identity,omitempty"`
}

type controlAnswer struct {
	Error string `json:"error,omitempty"`
	// Marker is that of the link of the saved machine.
	Marker string `json:"marker,omitempty"`
}

const (
	maxLine     = 4 << 10
	holdTimeout = 15 * time.Second
	saveTimeout = 10 * time.Minute
)

// control serves control connections, one after the other.
func (s *machineSupervisor) control() {
	err := supervisor.Serve(s.file(fileControl), func(conn *net.UnixConn) {
		defer conn.Close()
		s.serveControl(conn)
	})
	fmt.Fprintln(os.Stderr, "control:", err)
}

func (s *machineSupervisor) serveControl(conn *net.UnixConn) {
	isHeld := false
	defer func() {
		if isHeld {
			s.release()
		}
	}()
	for {
		asked, file, err := receiveOrder(conn)
		if err != nil {
			return
		}
		answer := controlAnswer{}
		switch asked.Op {
		case "sync":
			_, err = s.ask(order.Request{Op: order.Sync}, askTimeout)
		case "freeze":
			_, err = s.ask(order.Request{Op: order.Freeze}, askTimeout)
		case "thaw":
			err = s.thaw()
		case "hold":
			if err = s.hold(); err == nil {
				isHeld = true
			}
		case "save":
			if file == nil || !isHeld {
				err = errors.New("save needs a file, and a machine that stands still")
			} else {
				answer.Marker, err = s.save(file)
			}
		case "wait":
			err = s.machine.Pause()
		case "become":
			err = s.become(asked.Identity)
		default:
			err = fmt.Errorf("there is no operation %q", asked.Op)
		}
		if file != nil {
			file.Close()
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if json.NewEncoder(conn).Encode(answer) != nil {
			return
		}
	}
}

// receiveOrder reads one order, which arrives in one message.
func receiveOrder(conn *net.UnixConn) (asked controlOrder, file *os.File, err error) {
	text, control := make([]byte, maxLine), make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := conn.ReadMsgUnix(text, control)
	if err != nil || n == 0 {
		return asked, nil, errors.New("the connection has ended")
	}
	if size > 0 {
		messages, err := unix.ParseSocketControlMessage(control[:size])
		if err != nil || len(messages) != 1 {
			return asked, nil, errors.New("a strange message")
		}
		rights, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(rights) != 1 {
			for _, fd := range rights {
				unix.Close(fd)
			}
			return asked, nil, errors.New("strange descriptors")
		}
		unix.CloseOnExec(rights[0])
		file = os.NewFile(uintptr(rights[0]), "state")
	}
	if err := json.Unmarshal(text[:n], &asked); err != nil {
		if file != nil {
			file.Close()
		}
		return asked, nil, err
	}
	return asked, file, nil
}

func (s *machineSupervisor) hold() error {
	if _, err := s.ask(order.Request{Op: order.Freeze}, askTimeout); err != nil {
		return err
	}
	if err := s.machine.Pause(); err != nil {
		s.thaw()
		return err
	}
	return nil
}

// save writes the state of a machine that stands still, and returns the marker of its link. The marker is
// read first: a save can end the link, and another session is tried at once.
func (s *machineSupervisor) save(state *os.File) (marker string, err error) {
	s.mu.Lock()
	marker = s.marker
	s.mu.Unlock()
	return marker, s.machine.Save(state)
}

const (
	// mostThaws is how often a thaw is tried after a machine stood still, thawPause how long to wait in between.
	mostThaws = 3
	thawPause = 100 * time.Millisecond
)

// release lets the machine run again. Nobody else thaws it if that fails. A machine that was saved may drop
// the first connection that it gets.
func (s *machineSupervisor) release() {
	if err := s.machine.Resume(); err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
	}
	for try := 1; ; try++ {
		err := s.thaw()
		if err == nil {
			return
		}
		fmt.Fprintln(os.Stderr, "thaw:", s.why(err))
		if try == mostThaws || s.machine.Err() != nil {
			return
		}
		time.Sleep(thawPause)
	}
}

// become gives a machine that waits the identity of its sandbox.
func (s *machineSupervisor) become(identity *order.Identity) error {
	if identity == nil {
		return errors.New("become needs an identity")
	}
	if err := s.machine.Resume(); err != nil {
		return err
	}
	_, err := s.ask(order.Request{Op: order.Renew, Identity: identity}, askTimeout)
	return err
}

func (s *machineSupervisor) thaw() error {
	_, err := s.ask(order.Request{Op: order.Thaw, Identity: &order.Identity{}}, askTimeout)
	return err
}

// Sync lets a machine write to its disk what programs have written. They continue.
func Sync(control string) error { return once(control, "sync") }

// Freeze lets a machine write everything to its disk, and nothing afterwards.
func Freeze(control string) error { return once(control, "freeze") }

// Thaw lets it write again. It may be called at any time.
func Thaw(control string) error { return once(control, "thaw") }

// Wait lets a machine that is no sandbox yet stand still until it becomes one. Its supervisor runs.
func Wait(control string) error { return once(control, "wait") }

// Become gives a machine that waits the identity of its sandbox.
func Become(control string, identity order.Identity) error {
	return send(control, controlOrder{Op: "become", Identity: &identity})
}

func once(control, op string) error { return send(control, controlOrder{Op: op}) }

func send(control string, wish controlOrder) error {
	h, err := dial(control)
	if err != nil {
		return err
	}
	defer h.Release()
	_, err = h.order(wish, nil, holdTimeout)
	return err
}

// A Hold is a machine that stands still, until it is released.
type Hold struct {
	conn  *net.UnixConn
	lines *bufio.Reader
}

func dial(control string) (*Hold, error) {
	conn, err := unixsocket.Dial(control, holdTimeout)
	if err != nil {
		return nil, err
	}
	return &Hold{conn: conn.(*net.UnixConn), lines: bufio.NewReaderSize(conn, maxLine)}, nil
}

// HoldStill stops a machine whose supervisor listens at a path. Its disk is complete.
func HoldStill(control string) (*Hold, error) {
	h, err := dial(control)
	if err != nil {
		return nil, err
	}
	if _, err := h.order(controlOrder{Op: "hold"}, nil, holdTimeout); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// Save writes everything of the machine but its memory, and returns the marker of its link.
func (h *Hold) Save(state *os.File) (marker string, err error) {
	return h.order(controlOrder{Op: "save"}, state, saveTimeout)
}

// Release lets the machine run again.
func (h *Hold) Release() { h.conn.Close() }

func (h *Hold) order(wish controlOrder, file *os.File, limit time.Duration) (marker string, err error) {
	h.conn.SetDeadline(time.Now().Add(limit))
	line, err := json.Marshal(wish)
	if err != nil {
		return "", err
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := h.conn.WriteMsgUnix(append(line, '\n'), rights, nil); err != nil {
		return "", err
	}
	text, err := h.lines.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("the supervisor did not answer: %w", err)
	}
	var answer controlAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", err
	}
	if answer.Error != "" {
		return "", errors.New(answer.Error)
	}
	return answer.Marker, nil
}
