package inside

import (
	"io"
	"net"
	"testing"
	"time"

	"agentpod/native/internal/streams"
	"agentpod/native/internal/vm/link"
)

// A machine that is saved and loaded loses its connection. The next one continues with the marker of the
// last.
func TestASessionBeginsOnEachNewConnection(t *testing.T) {
	channel := newLatest()
	go link.NewPort(channel).Serve(func(session net.Conn) { io.Copy(session, session) })
	marker := link.FirstMarker
	for n := 0; n < 3; n++ {
		ours, theirs, err := streams.Pair()
		if err != nil {
			t.Fatal(err)
		}
		channel.use(theirs)
		next := link.NewMarker()
		session, err := link.Connect(ours, marker, next, time.Now().Add(5*time.Second))
		if err != nil {
			t.Fatalf("session %d: %v", n, err)
		}
		marker = next
		session.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := session.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 5)
		if _, err := io.ReadFull(session, answer); err != nil || string(answer) != "hello" {
			t.Fatalf("session %d: %q, %v", n, answer, err)
		}
		// The connection breaks in the middle of a line, once on this side and once on that.
		session.Write([]byte("half a li"))
		if n == 0 {
			ours.Close()
		}
	}
}
