package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// way is a forwarder and its connections, without an egress process, in this process.
type way struct {
	t           *testing.T
	forwarder   *forwarder
	connections *connections
	path        string
}

func newWay(t *testing.T, hold time.Duration) *way { return newGuardedWay(t, hold, false) }

func newGuardedWay(t *testing.T, hold time.Duration, guarded bool) *way {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	out, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	in, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); out.Close() })
	w := &way{t: t, path: path, connections: &connections{listener: out, guarded: guarded}}
	w.forwarder = &forwarder{listener: in, connections: w.connections, names: newAddressTable(time.Now), hold: hold}
	go w.connections.accept()
	go w.forwarder.accept()
	return w
}

func (w *way) outside() *net.UnixConn {
	w.t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: w.path})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

func (w *way) inside() *net.TCPConn {
	w.t.Helper()
	conn, err := net.DialTCP("tcp4", nil, w.forwarder.listener.Addr().(*net.TCPAddr))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// pair is a connection that has been handed over.
func (w *way) pair() (inside *net.TCPConn, outside *net.UnixConn) {
	w.t.Helper()
	outside = w.outside()
	inside = w.inside()
	w.header(outside)
	return inside, outside
}

func (w *way) header(outside *net.UnixConn) {
	w.t.Helper()
	const want = `{"v":1,"kind":"proxy"}` + "\n"
	line := make([]byte, len(want))
	if _, err := io.ReadFull(outside, line); err != nil || string(line) != want {
		w.t.Fatalf("header %q, %v", line, err)
	}
}

func (w *way) eventually(what string, isSo func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within 5 s", what)
		}
	}
}

func (w *way) idle() int {
	w.connections.mu.Lock()
	defer w.connections.mu.Unlock()
	return len(w.connections.idle)
}

// end reads to the end, and returns the data and the error.
func end(conn net.Conn) (string, error) {
	data, err := io.ReadAll(conn)
	return string(data), err
}

func TestARelayCopiesBothWaysAndPassesEachEndOn(t *testing.T) {
	w := newWay(t, time.Second)
	inside, outside := w.pair()
	much := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		inside.Write(much)
		inside.CloseWrite()
	}()
	if data, err := end(outside); err != nil || data != string(much) {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	// The other direction is still open.
	go func() {
		outside.Write(much)
		outside.CloseWrite()
	}()
	if data, err := end(inside); err != nil || data != string(much) {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	w.eventually("the place is free", func() bool { return atomic.LoadInt32(&w.forwarder.open) == 0 })
}

func TestARelayPassesAnEndFromOutsideOn(t *testing.T) {
	w := newWay(t, time.Second)
	inside, outside := w.pair()
	outside.Write([]byte("all"))
	outside.CloseWrite()
	if data, err := end(inside); err != nil || data != "all" {
		t.Fatalf("%q, %v", data, err)
	}
	time.Sleep(20 * time.Millisecond)
	inside.Write([]byte("more"))
	inside.CloseWrite()
	if data, err := end(outside); err != nil || data != "more" {
		t.Fatalf("%q, %v", data, err)
	}
}

func TestARelayClosesBothSidesWhenOneIsClosed(t *testing.T) {
	for name, leave := range map[string]func(inside *net.TCPConn, outside *net.UnixConn){
		"inside resets": func(inside *net.TCPConn, _ *net.UnixConn) { reset(inside) },
		"inside ends, then resets": func(inside *net.TCPConn, _ *net.UnixConn) {
			inside.CloseWrite()
			time.Sleep(20 * time.Millisecond)
			reset(inside)
		},
		"the egress process leaves": func(_ *net.TCPConn, outside *net.UnixConn) { outside.Close() },
		"the egress process ends, then leaves": func(_ *net.TCPConn, outside *net.UnixConn) {
			outside.CloseWrite()
			time.Sleep(20 * time.Millisecond)
			outside.Close()
		},
		"the egress process leaves bytes alone": func(inside *net.TCPConn, outside *net.UnixConn) {
			inside.Write([]byte("x"))
			time.Sleep(20 * time.Millisecond)
			outside.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWay(t, time.Second)
			inside, outside := w.pair()
			leave(inside, outside)
			w.eventually("the place is free", func() bool { return atomic.LoadInt32(&w.forwarder.open) == 0 })
			if _, err := end(inside); name == "the egress process leaves bytes alone" && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("inside: %v", err)
			}
		})
	}
}

func TestDataSentBeforeTheEgressProcessDisconnectsArrives(t *testing.T) {
	w := newWay(t, time.Second)
	inside, outside := w.pair()
	much := bytes.Repeat([]byte("x"), 1<<20)
	go func() {
		outside.Write(much)
		outside.Close()
	}()
	time.Sleep(50 * time.Millisecond)
	if data, err := end(inside); err != nil || len(data) != len(much) {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
}

func TestAConnectionWaitsForTheEgressProcessAndThenIsReset(t *testing.T) {
	w := newWay(t, 200*time.Millisecond)
	begin := time.Now()
	if _, err := end(w.inside()); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond || took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	w = newWay(t, 5*time.Second)
	w.inside()
	time.Sleep(20 * time.Millisecond)
	w.header(w.outside())
}

func TestAnIdleConnectionThatWasClosedIsNotUsed(t *testing.T) {
	w := newWay(t, 5*time.Second)
	for i := 0; i < 3; i++ {
		dead := w.outside()
		w.eventually("idle", func() bool { return w.idle() == i+1 })
		dead.Close()
	}
	alive := w.outside()
	w.eventually("idle", func() bool { return w.idle() == 4 })
	inside := w.inside()
	w.header(alive)
	alive.Write([]byte("hello\n"))
	if line, err := bufio.NewReader(inside).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestTheOldestIdleConnectionIsUsedFirstAndTooManyAreClosed(t *testing.T) {
	w := newWay(t, 5*time.Second)
	var idle []*net.UnixConn
	for i := 0; i < maxIdle; i++ {
		idle = append(idle, w.outside())
	}
	w.eventually("idle", func() bool { return w.idle() == maxIdle })
	if _, err := end(w.outside()); err != nil {
		t.Errorf("one too many: %v", err)
	}
	w.inside()
	w.header(idle[0])
	// Closed connections make room.
	for _, conn := range idle[1:10] {
		conn.Close()
	}
	late := []*net.UnixConn{w.outside(), w.outside(), w.outside()}
	w.eventually("idle", func() bool { return w.idle() == maxIdle-10+3 })
	for _, conn := range idle[10:] {
		w.inside()
		w.header(conn)
	}
	for _, conn := range late {
		w.inside()
		w.header(conn)
	}
}

func TestTooManyWaitingConnectionsAreReset(t *testing.T) {
	w := newWay(t, 30*time.Second)
	for i := 0; i < maxHeld; i++ {
		w.inside()
	}
	w.eventually("held", func() bool { return atomic.LoadInt32(&w.forwarder.held) == maxHeld })
	// The reset may come before the dial has returned.
	conn, err := net.DialTCP("tcp4", nil, w.forwarder.listener.Addr().(*net.TCPAddr))
	if err == nil {
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = end(conn)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	// The control: they were only waiting.
	w.header(w.outside())
}

func TestAProgramInsideCannotOfferEgressConnections(t *testing.T) {
	// This process has a pid in its own namespace, as a program inside has in podd's.
	w := newGuardedWay(t, 5*time.Second, true)
	if _, err := end(w.outside()); err != nil {
		t.Errorf("%v", err)
	}
	if w.idle() != 0 {
		t.Error("it was idle")
	}
}
