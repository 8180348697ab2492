package supervise

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"agentpod/native/internal/streams"
	"agentpod/native/internal/vm/link"
	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

// machine is a vm.Running without a program. vminit inside notes what it is asked.
type machine struct {
	// silence ends the connection when the machine says this.
	silence string
	// toDrop is how many answers are lost, because the connection ends.
	toDrop int
	// onSave is called while the machine is saved.
	onSave func()

	mu    sync.Mutex
	asked []string
	conn  net.Conn
	host  net.Conn
	next  *sync.Cond
}

func newMachine() *machine {
	m := &machine{}
	m.next = sync.NewCond(&m.mu)
	go link.NewPort(m).Serve(streams.Targets{Dial: m.dial}.Serve)
	return m
}

func (m *machine) Link(time.Time) (net.Conn, error) {
	host, guest := net.Pipe()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn, m.host = guest, host
	m.next.Broadcast()
	return host, nil
}

func (m *machine) end() {
	m.host.Close()
	m.conn.Close()
	m.conn = nil
}

// Read and Write are the channel inside, which stays when a connection ends.
func (m *machine) Read(data []byte) (int, error) {
	for {
		m.mu.Lock()
		for m.conn == nil {
			m.next.Wait()
		}
		conn := m.conn
		m.mu.Unlock()
		if n, _ := conn.Read(data); n > 0 {
			return n, nil
		}
		m.mu.Lock()
		if m.conn == conn {
			m.conn = nil
		}
		m.mu.Unlock()
	}
}

func (m *machine) Write(data []byte) (int, error) {
	m.mu.Lock()
	conn := m.conn
	isLost := conn != nil && m.silence != "" && strings.Contains(string(data), m.silence)
	if isLost {
		m.silence = ""
		m.end()
	}
	m.mu.Unlock()
	if conn == nil {
		return 0, io.ErrClosedPipe
	}
	if isLost {
		return len(data), nil
	}
	return conn.Write(data)
}

func (m *machine) dial(string) (*net.UnixConn, error) {
	ours, theirs, err := streams.Pair()
	if err != nil {
		return nil, err
	}
	go func() {
		defer theirs.Close()
		line, _ := bufio.NewReader(theirs).ReadBytes('\n')
		var request order.Request
		json.Unmarshal(line, &request)
		m.mu.Lock()
		m.asked = append(m.asked, request.Op)
		isDropped := m.toDrop > 0 && request.Op == order.Thaw
		if isDropped {
			m.toDrop--
			m.end()
		}
		m.mu.Unlock()
		if !isDropped {
			json.NewEncoder(theirs).Encode(order.Answer{})
		}
	}()
	return ours, nil
}

func (m *machine) Output() net.Conn { return nil }
func (m *machine) Resume() error    { return nil }
func (m *machine) Pause() error     { return nil }
func (m *machine) Save(state *os.File) error {
	if m.onSave != nil {
		m.onSave()
	}
	_, err := state.WriteString("state")
	return err
}
func (m *machine) Done() <-chan struct{} { return nil }
func (m *machine) Err() error            { return nil }
func (m *machine) End()                  {}

func supervised(t *testing.T, m *machine) *machineSupervisor {
	t.Helper()
	s := &machineSupervisor{machine: m, marker: link.FirstMarker}
	if err := s.connect(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProgramsAreThawedThoughAConnectionIsLost(t *testing.T) {
	m := newMachine()
	s := supervised(t, m)
	if err := s.hold(); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.toDrop = 1
	m.mu.Unlock()
	s.release()
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := strings.Join(m.asked, " "); found != "freeze thaw thaw" {
		t.Errorf("the machine was asked to %s", found)
	}
}

// The machine has taken the next marker, and the host has not heard of it.
func TestASessionBeginsAfterOneOfWhichTheBeginningWasLost(t *testing.T) {
	m := newMachine()
	m.silence = " STARTED "
	s := &machineSupervisor{machine: m, marker: link.FirstMarker}
	if err := s.connect(time.Now().Add(5 * time.Second)); err == nil {
		t.Fatal("the connection was not lost")
	}
	if err := s.connect(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(order.Request{Op: order.Ping}, askTimeout); err != nil {
		t.Error(err)
	}
}

func TestTheMarkerIsThatOfTheMachineThatWasSaved(t *testing.T) {
	m := newMachine()
	s := supervised(t, m)
	wanted := s.marker
	m.onSave = func() {
		s.mu.Lock()
		s.marker = link.NewMarker()
		s.mu.Unlock()
	}
	file, err := os.CreateTemp(t.TempDir(), "state")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if found, err := s.save(file); err != nil || found != wanted {
		t.Errorf("%s, not %s, %v", found, wanted, err)
	}
}

func TestADescriptorOfAWrongOrderIsClosed(t *testing.T) {
	ours, theirs, err := streams.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	for _, count := range []int{1, 2} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var rights []int
		for len(rights) < count {
			rights = append(rights, int(write.Fd()))
		}
		if _, _, err := ours.WriteMsgUnix([]byte("{"), unix.UnixRights(rights...), nil); err != nil {
			t.Fatal(err)
		}
		write.Close()
		if _, _, err := receiveOrder(theirs); err == nil {
			t.Error("the order was accepted")
		}
		// The pipe ends when its other end is closed everywhere.
		read.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := read.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d descriptors: %v", count, err)
		}
		read.Close()
	}
}
