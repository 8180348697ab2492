// Package lateroot gives a gVisor sandbox its root after it has started. No process outside can enter the
// mount namespace of such a sandbox, so the change is made inside: by a child of podd, which keeps the
// capabilities that podd gives up, waits for one order, and ends. It starts before anything else runs inside.
package lateroot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

const (
	// Slot is where the directory appears, inside, on which podhost mounts the root.
	Slot = "/slot"
	// Root is the name in it.
	Root = "root"
	// Command is podd's subcommand that becomes the child.
	Command = "late-root"

	newRoot  = "/new"
	maxOrder = 64 << 10
)

// An Order says how the sandbox looks.
type Order struct {
	Hostname string `json:"hostname"`
	// Keep are mount points of the blank root that appear at the same path of the new one.
	Keep []string `json:"keep"`
	// Sizes are the sizes in bytes of new temporary file systems at these paths; 0 for half of the memory.
	Sizes map[string]int64 `json:"sizes"`
}

// A Helper is the child that waits for an order.
type Helper struct {
	cmd    *exec.Cmd
	order  io.WriteCloser
	answer io.ReadCloser
}

// Start starts the helper.
func Start() (*Helper, error) {
	h := &Helper{cmd: exec.Command("/proc/self/exe", Command)}
	h.cmd.Env = []string{}
	h.cmd.Stderr = os.Stderr
	var err error
	if h.order, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if h.answer, err = h.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return h, h.cmd.Start()
}

// Pid is the helper's process id.
func (h *Helper) Pid() int { return h.cmd.Process.Pid }

// Enter makes the new root the root of every process inside. It can be called once.
func (h *Helper) Enter(order Order) error {
	defer h.order.Close()
	defer h.answer.Close()
	if err := json.NewEncoder(h.order).Encode(order); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(h.answer, maxOrder))
	if err == nil && string(answer) != "ok" {
		err = errors.New(string(answer))
	}
	return err
}

// Run is the child: it waits for an order, and carries it out.
func Run() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var order Order
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, maxOrder)).ReadBytes('\n')
	if err != nil {
		// podd has ended, or needs no other root.
		return nil
	}
	if err = json.Unmarshal(line, &order); err == nil {
		err = order.carryOut()
	}
	answer := "ok"
	if err != nil {
		answer = err.Error()
	}
	_, err = os.Stdout.WriteString(answer)
	return err
}

func (o Order) carryOut() error {
	if err := unix.Sethostname([]byte(o.Hostname)); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	if err := unix.Mount(Slot+"/"+Root, newRoot, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, path := range o.Keep {
		if err := unix.Mount(path, newRoot+path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
	}
	for path, bytes := range o.Sizes {
		options := "mode=1777"
		if bytes > 0 {
			options += fmt.Sprintf(",size=%d", bytes)
		}
		if err := unix.Mount("tmpfs", newRoot+path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the blank root: %w", err)
	}
	return nil
}
