// Package launch starts the OCI runtime inside a sandbox's control groups, with only the descriptors that it
// needs.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Helper is podhost's subcommand that becomes the runtime.
const Helper = "launch"

// A Launch is a runtime that is about to start. Entering a control group takes the kernel several
// milliseconds, because it waits for every processor. So the helper enters early and then waits at a gate
// while the root is mounted.
type Launch struct {
	cmd  *exec.Cmd
	gate *os.File
}

// Prepare starts the helper. argv is executed from the descriptor program; files become its descriptors 3 and
// up; output gets stdout and stderr. The environment has only a path, because the host's may contain secrets
// (case LK-01).
func Prepare(ctx context.Context, program *os.File, procs, argv []string, files []*os.File, output *os.File) (*Launch, error) {
	wait, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer wait.Close()
	args := append([]string{Helper, strconv.Itoa(len(files)), strings.Join(procs, ":")}, argv...)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = append(append([]*os.File{}, files...), program, wait)
	if err := cmd.Start(); err != nil {
		gate.Close()
		return nil, err
	}
	return &Launch{cmd: cmd, gate: gate}, nil
}

// Go opens the gate and waits for the runtime to end.
func (l *Launch) Go() error {
	_, err := l.gate.Write([]byte{1})
	l.gate.Close()
	if ended := l.cmd.Wait(); ended != nil {
		return ended
	}
	return err
}

// Abort ends the helper without starting the runtime. After Go it does nothing.
func (l *Launch) Abort() {
	if l.gate.Close() == nil {
		l.cmd.Wait()
	}
}

// Become is the helper: it enters the groups, waits at the gate, closes all other descriptors and turns into
// the runtime. So the runtime and all its children start in the right groups, and nothing has to be moved
// later.
func Become(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: %s <descriptors> <procs:procs...> <program> [argument...]", Helper)
	}
	files, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return err
	}
	program, gate := 3+int(files), os.NewFile(uintptr(4+files), "gate")
	for _, path := range strings.Split(args[1], ":") {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path, []byte("0"), 0); err != nil {
			return fmt.Errorf("enter %s: %w", path, err)
		}
	}
	if err := raiseOOMScore(); err != nil {
		return err
	}
	if _, err := io.ReadFull(gate, make([]byte, 1)); err != nil {
		return errors.New("the start was canceled")
	}
	// SECURITY: LK-02. Go closes its own descriptors on exec; this closes those that were inherited without
	// that mark.
	if err := unix.CloseRange(uint(program), 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return unix.Exec("/proc/self/fd/"+strconv.Itoa(program), args[2:], os.Environ())
}

// leastOOMScore is the lowest score of any process of a sandbox. When the whole machine runs out of memory,
// the kernel kills sandboxes first.
const leastOOMScore = 100

// raiseOOMScore sets the score of this process, and so of everything that it becomes and starts. A score that
// a process with CAP_SYS_RESOURCE has set cannot be lowered without that capability. If podhost lacks it (an
// ordinary user, some containers), a payload could lower its score below podd's, so the score stays as it is.
//
// SECURITY: RS-17.
func raiseOOMScore() error {
	const file = "/proc/self/oom_score_adj"
	// Lowering the score below the inherited one takes the capability.
	if err := os.WriteFile(file, []byte("-1"), 0); err != nil {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(leastOOMScore)), 0)
}
