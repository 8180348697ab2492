// Package arrivals passes connections into a gVisor sandbox. gVisor cannot accept on a listening socket of
// the host, but it takes connections that are handed in over a unix socket. So the process that supervises
// the sandbox accepts outside, and podd receives each connection on its standard input. Nothing inside has a
// path to that socket.
//
// Towards podd, every message is one byte, with a connection, or with a line after it, or alone. Towards the
// supervisor, podd writes lines.
package arrivals

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Kind says what a message is.
type Kind byte

const (
	// API is a connection of the server.
	API Kind = 'a'
	// Egress is a connection of the egress process.
	Egress Kind = 'e'
	// Quiesce asks podd to close every connection that was handed in: a sandbox with open connections of the
	// host cannot be saved. podd answers with Quiesced.
	Quiesce Kind = 'q'
	// Renew asks podd to set up the network, which gVisor does not restore. A line follows: the host name, or
	// nothing to keep it. podd answers with Renewed.
	Renew Kind = 'r'
)

// Quiesced is podd's answer to Quiesce, Renewed that to Renew.
const (
	Quiesced = "quiesced"
	Renewed  = "renewed"
)

// Pair returns the two ends of a new link: the supervisor's, and podd's.
func Pair() (supervisor *net.UnixConn, podd *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	podd = os.NewFile(uintptr(ends[1]), "arrivals")
	if supervisor, err = connection(ends[0]); err != nil {
		podd.Close()
		return nil, nil, err
	}
	return supervisor, podd, nil
}

// connection takes a descriptor over.
func connection(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "connection")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	socket, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		conn.Close()
		return nil, errors.New("not a unix socket")
	}
	return socket, nil
}

// Send passes a connection on. The caller keeps its copy.
func Send(link *net.UnixConn, kind Kind, conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		_, _, failure = link.WriteMsgUnix([]byte{byte(kind)}, unix.UnixRights(int(fd)), nil)
	})
	if err == nil {
		err = failure
	}
	return err
}

// Signal sends a message without a connection. text is the line after Renew.
func Signal(link *net.UnixConn, kind Kind, text string) error {
	message := []byte{byte(kind)}
	if kind == Renew {
		message = append(append(message, text...), '\n')
	}
	_, err := link.Write(message)
	return err
}

// Open makes a link of the descriptor that podd was started with.
func Open(fd int) (*net.UnixConn, error) {
	unix.CloseOnExec(fd)
	return connection(fd)
}

// Receive calls handle for every message, until the link ends. conn is nil if the message has no connection,
// and text is empty if it has no line.
func Receive(link *net.UnixConn, handle func(kind Kind, conn *net.UnixConn, text string)) error {
	text, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	for {
		n, size, _, _, err := link.ReadMsgUnix(text, control)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.EOF
		}
		conn, err := received(control[:size])
		if err != nil {
			return fmt.Errorf("a connection that was handed in: %w", err)
		}
		kind, line := Kind(text[0]), ""
		if kind == Renew {
			if line, err = readLine(link); err != nil {
				return err
			}
		}
		handle(kind, conn, line)
	}
}

// maxLine is more than a host name has.
const maxLine = 256

// readLine reads no byte after the line: a connection may come with it.
func readLine(link *net.UnixConn) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxLine; {
		if _, err := io.ReadFull(link, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[0])
	}
	return "", errors.New("a line is too long")
}

func received(control []byte) (*net.UnixConn, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages: %w", len(messages), err)
	}
	rights, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(rights) != 1 {
		return nil, fmt.Errorf("%d descriptors: %w", len(rights), err)
	}
	unix.CloseOnExec(rights[0])
	return connection(rights[0])
}
