package boot

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/unixsocket"
)

// A Run is one podd, from before its start until nothing of it is left.
type Run struct {
	// Name is the name of its control groups and sockets.
	Name string
	// Runtime is what it runs on.
	Runtime Runtime
	// Docker: root inside may run a container engine. Only where the kernel is the sandbox's own.
	Docker bool
	// Awaits: it is a gVisor sandbox in which nothing runs until it is told which memory it starts from.
	Awaits bool
	// Log is the file that podd writes to.
	Log string
	// Control is where the supervisor of a gVisor sandbox, or of a virtual machine, listens.
	Control string
	// Socket is where podd listens. Out is where podd accepts connections of the egress process.
	Socket, Out string
	// Pid is that of podd, or of the supervisor, which ends with podd. It is 0 before that runs.
	Pid       int
	StartTime uint64
	// BootID is the boot id that programs in a gVisor sandbox or a machine see.
	BootID string
	// Network is known when podd is ready.
	Network netns.Level
	// UIDBase is the first id of the range that it runs as; 0 if it has none.
	UIDBase int
	// IDs is that range during and after a start. It is nil for a run of an earlier podhost.
	IDs *ids.Range

	// parent is the pipe by which podd knows that podhost runs. Until Detach, podd ends when podhost ends for
	// any reason.
	parent *os.File
	// ready is the pipe by which podd says that it serves; nil after AwaitReady.
	ready *os.File
	// user is a user namespace of the same ids, for gVisor, whose own has no process that can be asked for
	// it.
	user *os.File
	// restore is set if it starts from saved memory.
	restore *Restore
	// Machine is what a virtual machine starts from; nil for other runtimes, and after a restart of podhost.
	Machine *MachineStart
	// bootID is the name on the stage of the file with podd's boot id, until podd is ready.
	bootID string
}

// NewRun returns a run that has not started.
func NewRun(home, name string, runtime Runtime) *Run {
	base := filepath.Join(home, "run", "s", name)
	return &Run{Name: name, Runtime: runtime, Log: base + ".log", Socket: base + ".sock", Out: base + ".out", Control: base + ".ctl"}
}

// SetIDs sets the range that the run uses; nil for none.
func (r *Run) SetIDs(used *ids.Range) {
	r.IDs, r.UIDBase = used, 0
	if used != nil {
		r.UIDBase = used.Base
	}
}

// HasEgress reports whether a network of this level has sockets that lead to the egress process.
func HasEgress(network netns.Level) bool { return network.Level != "" && network.Level != netns.None }

// IsAlive reports whether its podd runs and is not about to end.
func (r *Run) IsAlive() bool { return processes.IsAlive(r.Pid, r.StartTime) }

// Detach lets podd continue without this podhost. INVARIANT: the next podhost would find the sandbox. If podd
// has ended already, the write fails, and the goroutine that watches podd reports its end.
func (r *Run) Detach() {
	r.parent.Write([]byte{1})
	r.CloseParent()
}

// CloseParent ends podd, unless it was detached.
func (r *Run) CloseParent() {
	if r.parent != nil {
		r.parent.Close()
	}
}

// UserNamespace opens podd's user namespace. It fails if podd has ended.
func (r *Run) UserNamespace() (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/ns/user", r.Pid)
	if r.user != nil {
		path = fmt.Sprintf("/proc/self/fd/%d", r.user.Fd())
	}
	file, err := os.Open(path)
	if err == nil && r.Pid != 0 && !r.IsAlive() {
		file.Close()
		err = ErrPoddEnded
	}
	return file, err
}

// AskHealth asks podd whether it serves and returns the status of its answer.
func (r *Run) AskHealth() (string, error) { return r.call("GET /health", nil) }

// TellRoot tells podd that its root is that of a new sandbox. It returns when podd has prepared the root.
func (r *Run) TellRoot() error {
	status, err := r.call("PUT /agentpod/root", nil)
	if err == nil && !strings.HasPrefix(status, "20") {
		err = fmt.Errorf("podd could not prepare its root: %s", status)
	}
	return err
}

// rehearsal is a program that every root is likely to have.
const rehearsal = `{"process":{"cmd":"/bin/sh","args":["-c","echo"]},"stdin":false}`

// Rehearse lets podd run a program that does nothing, as a client of the sandbox would. What it needs of the
// disk is in memory afterwards, and an emulated processor has translated it. podd forgets the program when
// its settings arrive.
func (r *Run) Rehearse(within time.Duration) error {
	peer, err := unixsocket.Dial(r.Socket, 5*time.Second)
	if err != nil {
		return err
	}
	defer peer.Close()
	peer.SetDeadline(time.Now().Add(within))
	// A message of the Connect protocol has its flags and its length before it.
	message := append([]byte{0, 0, 0, 0, byte(len(rehearsal))}, rehearsal...)
	head := fmt.Sprintf("POST /process.Process/Start HTTP/1.1\r\nHost: podd\r\nAuthorization: Basic %s\r\n"+
		"Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		base64.StdEncoding.EncodeToString([]byte("root:")), len(message))
	if _, err := peer.Write(append([]byte(head), message...)); err != nil {
		return err
	}
	// SECURITY: the answer is dropped. The program may be anything that the root has under this name.
	_, err = io.Copy(io.Discard, io.LimitReader(peer, maxReport))
	return err
}

// tellLateRoot tells podd in gVisor to enter the root in its slot.
func (r *Run) tellLateRoot(order lateroot.Order, files uint64) error {
	body, err := json.Marshal(struct {
		lateroot.Order
		Files uint64 `json:"files"`
	}{order, files})
	if err != nil {
		return err
	}
	status, err := r.call("PUT /agentpod/late-root", body)
	if err == nil && !strings.HasPrefix(status, "200") {
		err = errors.New(status)
	}
	return err
}

// call sends a request and returns the status of the answer; for a failure, with its text.
func (r *Run) call(request string, body []byte) (string, error) {
	peer, err := unixsocket.Dial(r.Socket, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer peer.Close()
	peer.SetDeadline(time.Now().Add(5 * time.Second))
	head := fmt.Sprintf("%s HTTP/1.1\r\nHost: podd\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", request, len(body))
	if _, err := peer.Write(append([]byte(head), body...)); err != nil {
		return "", err
	}
	// SECURITY: podd may be anything by now; its answer is bounded and only logged.
	answer := bufio.NewReader(io.LimitReader(peer, maxReport))
	line, err := answer.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 ") {
		return "", fmt.Errorf("podd did not answer: %q %v", line, err)
	}
	status := strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 "))
	if !strings.HasPrefix(status, "2") {
		if rest, _ := io.ReadAll(answer); len(rest) > 0 {
			_, text, _ := bytes.Cut(rest, []byte("\r\n\r\n"))
			status += ": " + string(text)
		}
	}
	return status, nil
}

// Failure returns the error of a failed start of sandbox id, with the output of podd.
func (r *Run) Failure(id string, err error) error {
	output, _ := os.ReadFile(r.Log)
	output = bytes.TrimSpace(output)
	if len(output) > 2000 {
		output = output[len(output)-2000:]
	}
	if bytes.Contains(output, []byte("No space left on device")) {
		return hostproto.Errorf(hostproto.ResourceExhausted, "disk.full", "start of %s: %s", id, output)
	}
	return hostproto.Errorf(hostproto.Internal, "podd.failed", "start of %s: %v: %s", id, err, output)
}
