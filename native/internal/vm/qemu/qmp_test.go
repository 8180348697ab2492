package qemu

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"agentpod/native/internal/streams"
	"agentpod/native/internal/vm"
)

// program plays QEMU: it greets, and answers each command with what answer returns.
func program(t *testing.T, answer func(id int, name string) string) *net.UnixConn {
	t.Helper()
	ours, theirs, err := streams.Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	go func() {
		defer theirs.Close()
		fmt.Fprintln(theirs, `{"QMP":{"version":{},"capabilities":["oob"]}}`)
		lines := bufio.NewScanner(theirs)
		for lines.Scan() {
			var asked command
			if json.Unmarshal(lines.Bytes(), &asked) != nil {
				return
			}
			if _, err := theirs.Write([]byte(answer(asked.ID, asked.Execute))); err != nil {
				return
			}
		}
	}()
	return ours
}

func TestAnAnswerIsFoundAmongEvents(t *testing.T) {
	q, err := newMonitor(program(t, func(id int, name string) string {
		if name == "query-status" {
			return fmt.Sprintf("{\"event\":\"STOP\"}\n{\"id\":%d,\"return\":{\"status\":\"running\"}}\n", id)
		}
		if name == "device_add" {
			return fmt.Sprintf("{\"id\":%d,\"error\":{\"class\":\"GenericError\",\"desc\":\"no such bus\"}}\n", id)
		}
		return fmt.Sprintf("{\"id\":%d,\"return\":{}}\n", id)
	}))
	if err != nil {
		t.Fatal(err)
	}
	var found struct{ Status string }
	if err := q.call("query-status", nil, &found); err != nil || found.Status != "running" {
		t.Errorf("%+v, %v", found, err)
	}
	if err := q.call("device_add", nil, nil); err == nil || err.Error() != "device_add: no such bus" {
		t.Errorf("%v", err)
	}
}

func TestAProgramThatWasTakenOverCannotFillTheMemory(t *testing.T) {
	for name, flood := range map[string]string{
		"a line without an end": strings.Repeat("x", 2*maxReply),
		"events without an end": strings.Repeat("{\"event\":\"NOISE\"}\n", mostReplies+1),
	} {
		q, err := newMonitor(program(t, func(id int, asked string) string {
			if asked == "stop" {
				return flood
			}
			return fmt.Sprintf("{\"id\":%d,\"return\":{}}\n", id)
		}))
		if err != nil {
			t.Fatal(err)
		}
		if err := q.call("stop", nil, nil); err == nil {
			t.Errorf("%s was taken for an answer", name)
		}
	}
}

func TestTheCommandLineHasNoPathOfTheHost(t *testing.T) {
	line := commandLine(vm.Machine{Accel: vm.Emulated, MemoryMiB: 256, CPUs: 1, Generation: "g"}, descriptors{control: 3, link: 4, output: 5, memory: 6, kernel: 7, initrd: 8})
	for _, arg := range line {
		if bytes.Contains([]byte(arg), []byte("/")) && !strings.Contains(arg, "/proc/self/fd/") {
			t.Errorf("%s", arg)
		}
	}
	joined := strings.Join(line, " ")
	for _, wanted := range []string{"-nodefaults", "spawn=deny", "share=on"} {
		if !strings.Contains(joined, wanted) {
			t.Errorf("%s is missing", wanted)
		}
	}
	for _, unwanted := range []string{"netdev", "-nic", "serial ", "vnc", "virtio-net"} {
		if strings.Contains(joined, unwanted) {
			t.Errorf("%s is there", unwanted)
		}
	}
}
