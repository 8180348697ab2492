package inside

import (
	"os"
	"path/filepath"
	"testing"

	"agentpod/native/internal/streams"

	"golang.org/x/sys/unix"
)

func TestANewConnectionOfTheHostReplacesTheOneBefore(t *testing.T) {
	channel := newLatest()
	if _, err := channel.Write([]byte("x")); err == nil {
		t.Error("bytes were written to nobody")
	}
	read := make(chan string)
	go func() {
		for data := make([]byte, 16); ; {
			n, _ := channel.Read(data)
			read <- string(data[:n])
		}
	}()
	for _, text := range []string{"one", "two", "three"} {
		ours, theirs, err := streams.Pair()
		if err != nil {
			t.Fatal(err)
		}
		// The one before is still open.
		channel.use(theirs)
		if _, err := ours.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if found := <-read; found != text {
			t.Errorf("%q, not %q", found, text)
		}
		if _, err := channel.Write([]byte("answer")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 6)
		if _, err := ours.Read(answer); err != nil || string(answer) != "answer" {
			t.Errorf("%q, %v", answer, err)
		}
		if text == "two" {
			// A connection that ends is waited for, not reported.
			ours.Close()
		}
	}
}

func TestOnlyTheHostConnects(t *testing.T) {
	for cid, wanted := range map[uint32]bool{unix.VMADDR_CID_HOST: true, unix.VMADDR_CID_LOCAL: false, 3: false} {
		if isHost(&unix.SockaddrVM{CID: cid}) != wanted {
			t.Errorf("context %d", cid)
		}
	}
	if isHost(&unix.SockaddrUnix{}) {
		t.Error("another kind of address")
	}
}

func TestADiskIsFoundByItsSerialNumberOrItsOrder(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"vda/serial": "agentpod-1\n", "vdb/serial": "agentpod-10\n", "vda/size": "8\n", "vdb/size": "2048\n"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		number    int
		isOrdered bool
		wanted    string
	}{{1, false, "/dev/vda"}, {10, false, "/dev/vdb"}, {0, false, ""}, {0, true, ""}, {1, true, "/dev/vdb"}, {2, true, ""}, {26, true, ""}} {
		if found := virtioDiskIn(dir, c.number, c.isOrdered); found != c.wanted {
			t.Errorf("disk %d (ordered: %v) is %q", c.number, c.isOrdered, found)
		}
	}
}
