package qemu

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxReply bounds one line of QEMU. SECURITY: a machine may have taken QEMU over.
	maxReply = 1 << 20
	// mostReplies bounds the events before an answer.
	mostReplies = 10_000
	callTimeout = 30 * time.Second
	// movePoll is short because a machine stands still meanwhile. Its state is written in a few milliseconds.
	movePoll = time.Millisecond
)

// monitor speaks QMP, QEMU's control protocol, on a socket that QEMU inherited.
type monitor struct {
	conn    *net.UnixConn
	replies *bufio.Reader
	next    int
}

type command struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        int    `json:"id"`
}

type reply struct {
	ID     *int            `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Greeting json.RawMessage `json:"QMP"`
}

// newMonitor reads the greeting and begins to speak.
func newMonitor(conn *net.UnixConn) (*monitor, error) {
	q := &monitor{conn: conn, replies: bufio.NewReaderSize(conn, maxReply)}
	conn.SetDeadline(time.Now().Add(callTimeout))
	greeting, err := q.read()
	if err != nil {
		return nil, err
	}
	if greeting.Greeting == nil {
		return nil, errors.New("QEMU did not greet")
	}
	return q, q.call("qmp_capabilities", nil, nil)
}

// call executes a command and waits for its answer.
func (q *monitor) call(name string, arguments, answer any) error {
	return q.callWith(name, arguments, answer, nil)
}

// callWith is call for a command that takes a descriptor.
func (q *monitor) callWith(name string, arguments, answer any, file *os.File) error {
	q.next++
	id := q.next
	line, err := json.Marshal(command{Execute: name, Arguments: arguments, ID: id})
	if err != nil {
		return err
	}
	q.conn.SetDeadline(time.Now().Add(callTimeout))
	line = append(line, '\n')
	if file == nil {
		_, err = q.conn.Write(line)
	} else {
		_, _, err = q.conn.WriteMsgUnix(line, unix.UnixRights(int(file.Fd())), nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for n := 0; n < mostReplies; n++ {
		found, err := q.read()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if found.ID == nil || *found.ID != id {
			continue
		}
		if found.Error != nil {
			return fmt.Errorf("%s: %s", name, found.Error.Desc)
		}
		if answer == nil {
			return nil
		}
		return json.Unmarshal(found.Return, answer)
	}
	return fmt.Errorf("%s: QEMU sends other messages", name)
}

func (q *monitor) read() (found reply, err error) {
	line, err := q.replies.ReadSlice('\n')
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(line, &found)
}

// keyed is the arguments of a command.
type keyed map[string]any

// awaitMigration returns when the state is written or read.
func (q *monitor) awaitMigration(limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(movePoll) {
		var info struct {
			Status string `json:"status"`
			Desc   string `json:"error-desc"`
		}
		if err := q.call("query-migrate", nil, &info); err != nil {
			return err
		}
		switch info.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("the state could not be moved: %s %s", info.Status, info.Desc)
		}
		if time.Now().After(end) {
			return fmt.Errorf("the state was not moved within %v (%q)", limit, info.Status)
		}
	}
}
