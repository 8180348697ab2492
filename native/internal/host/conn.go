package host

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

// conn is one peer. Answers and events leave through one queue; a peer that does not read them is dropped.
type conn struct {
	host   *Host
	stream *net.UnixConn
	work   chan struct{}
	queue  chan any
	closed chan struct{}
	once   sync.Once
}

const queueLength = 1024

func newConn(h *Host, stream *net.UnixConn, work chan struct{}) *conn {
	return &conn{host: h, stream: stream, work: work, queue: make(chan any, queueLength), closed: make(chan struct{})}
}

// trusted accepts peers of this user, and root. The socket's mode says the same; this holds when the mode was changed.
func trusted(stream *net.UnixConn) bool {
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

// serve reads requests until the peer leaves or podhost does, and returns when their answers are written.
func (c *conn) serve() {
	var requests, writer sync.WaitGroup
	writer.Add(1)
	go func() {
		defer writer.Done()
		c.write()
	}()
	go func() {
		// A read deadline, and not a close, so that answers to requests under way still get out.
		select {
		case <-c.host.stopping:
			c.stream.SetReadDeadline(time.Now())
		case <-c.closed:
		}
	}()
	c.read(&requests)
	requests.Wait()
	c.host.events.leave(c)
	close(c.queue)
	writer.Wait()
	c.close()
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.closed)
		c.stream.Close()
	})
}

func (c *conn) read(requests *sync.WaitGroup) {
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
			c.send(c.host.answer(request, place))
		}()
	}
}

var errTooLong = errors.New("line too long")

// readLine returns the next line without its newline. The rest of a line that is too long stays unread: the connection ends.
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

// send must not block: events come from goroutines that have sandboxes to look after.
func (c *conn) send(message any) {
	select {
	case c.queue <- message:
	case <-c.closed:
	default:
		c.host.log.Printf("a peer does not read: dropped")
		c.close()
	}
}

func (c *conn) write() {
	for message := range c.queue {
		data, err := json.Marshal(message)
		if err != nil {
			c.host.log.Printf("encode: %v", err)
			continue
		}
		c.stream.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.stream.Write(append(data, '\n')); err != nil {
			c.close()
		}
	}
}
