package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"agentpod/native/internal/hostproto"

	"golang.org/x/sys/unix"
)

// A connection is one client. Answers and events leave through one queue. A client that does not read them is
// disconnected.
type connection struct {
	server *Server
	stream *net.UnixConn
	work   chan struct{}
	queue  chan any
	closed chan struct{}
	once   sync.Once
}

const queueLength = 1024

func newConnection(s *Server, stream *net.UnixConn, work chan struct{}) *connection {
	return &connection{server: s, stream: stream, work: work, queue: make(chan any, queueLength), closed: make(chan struct{})}
}

// isTrusted accepts clients of this user and of root. The socket's mode has the same effect; this check still
// holds if somebody changes the mode.
func isTrusted(stream *net.UnixConn) bool {
	raw, err := stream.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
	})
	return ok
}

type answer struct {
	ID     *int64           `json:"id"`
	Result any              `json:"result,omitempty"`
	Error  *hostproto.Error `json:"error,omitempty"`
}

// serve reads requests until the client disconnects or podhost stops. It returns when all answers are
// written.
func (c *connection) serve() {
	var requests, writer sync.WaitGroup
	writer.Add(1)
	go func() {
		defer writer.Done()
		c.write()
	}()
	go func() {
		// A read deadline instead of a close lets the answers to running requests still go out.
		select {
		case <-c.server.stopping:
			c.stream.SetReadDeadline(time.Now())
		case <-c.closed:
		}
	}()
	c.read(&requests)
	requests.Wait()
	c.server.events.remove(c)
	close(c.queue)
	writer.Wait()
	c.close()
}

func (c *connection) close() {
	c.once.Do(func() {
		close(c.closed)
		c.stream.Close()
	})
}

func (c *connection) read(requests *sync.WaitGroup) {
	reader := bufio.NewReaderSize(c.stream, 64<<10)
	for {
		line, err := readLine(reader)
		if errors.Is(err, errTooLong) {
			c.send(answer{Error: hostproto.Errorf(hostproto.InvalidArgument, "request.too_long", "a line is longer than %d bytes", hostproto.MaxLine)})
		}
		if err != nil {
			return
		}
		request, failure := hostproto.Parse(line)
		if failure != nil {
			c.send(answer{ID: request.ID, Error: failure})
			continue
		}
		c.work <- struct{}{}
		requests.Add(1)
		place := &slot{work: c.work}
		go func() {
			defer requests.Done()
			defer place.release()
			c.send(c.server.answer(request, place))
		}()
	}
}

var errTooLong = errors.New("line too long")

// readLine returns the next line without its newline. The rest of a line that is too long stays unread, so
// the caller has to end the connection.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := reader.ReadSlice('\n')
		if len(line)+len(part) > hostproto.MaxLine {
			return nil, errTooLong
		}
		line = append(line, part...)
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, io.EOF
		}
	}
}

// send never blocks: events come from goroutines that watch sandboxes.
func (c *connection) send(message any) {
	select {
	case c.queue <- message:
	case <-c.closed:
	default:
		c.server.log.Printf("a client does not read its answers: disconnected")
		c.close()
	}
}

func (c *connection) write() {
	for message := range c.queue {
		data, err := json.Marshal(message)
		if err != nil {
			c.server.log.Printf("encode: %v", err)
			continue
		}
		c.stream.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.stream.Write(append(data, '\n')); err != nil {
			c.close()
		}
	}
}
