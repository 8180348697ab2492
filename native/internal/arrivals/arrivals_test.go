package arrivals

import (
	"bufio"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestConnectionsAndSignalsArriveInOrder(t *testing.T) {
	supervisor, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	fd, err := unix.Dup(int(end.Fd()))
	end.Close()
	if err != nil {
		t.Fatal(err)
	}
	podd, err := Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	type message struct {
		kind Kind
		conn *net.UnixConn
		text string
	}
	got := make(chan message, 4)
	ended := make(chan error, 1)
	go func() {
		ended <- Receive(podd, func(kind Kind, conn *net.UnixConn, text string) { got <- message{kind, conn, text} })
	}()

	far := pass(t, supervisor, API)
	if err := Signal(supervisor, Quiesce, ""); err != nil {
		t.Fatal(err)
	}
	if err := Signal(supervisor, Renew, "name"); err != nil {
		t.Fatal(err)
	}
	pass(t, supervisor, Egress)
	first, second, renewal, third := <-got, <-got, <-got, <-got
	if renewal.kind != Renew || renewal.conn != nil || renewal.text != "name" {
		t.Fatalf("%v", renewal)
	}
	if first.kind != API || first.conn == nil || second.kind != Quiesce || second.conn != nil || third.kind != Egress || third.conn == nil {
		t.Fatalf("%v %v %v", first, second, third)
	}
	first.conn.Write([]byte("hello\n"))
	if line, err := bufio.NewReader(far).ReadString('\n'); line != "hello\n" {
		t.Fatalf("%q %v", line, err)
	}
	supervisor.Close()
	if err := <-ended; err == nil {
		t.Fatal("Receive returned without an error")
	}
}

// pass hands one end of a new connection in and returns the other.
func pass(t *testing.T, link *net.UnixConn, kind Kind) *net.UnixConn {
	t.Helper()
	far, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(end.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	near, err := connection(fd)
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	if err := Send(link, kind, near); err != nil {
		t.Fatal(err)
	}
	near.Close()
	t.Cleanup(func() { far.Close() })
	return far
}
