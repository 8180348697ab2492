// Package shells keeps blank shells ready, which makes a sandbox start faster. A shell is a sandbox without
// files, limits or a name: its namespaces, groups and filter exist, and podd runs in an empty root. A sandbox
// that starts takes one and swaps its own root in. A shell has run nothing before, and is never used again.
package shells

import (
	"log"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/random"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// keptMounts are the mounts of the runtime that move from the shell's root to the sandbox's.
var keptMounts = []string{"/proc", "/dev", "/sys", "/tmp", "/run"}

// mostFiles is the limit on open files of a shell, until the limit of its sandbox is known.
const mostFiles = 1 << 20

// A Shell is a podd that waits for a sandbox.
type Shell struct {
	*boot.Run
	made time.Time
}

// Dir is where the files of a shell's run are, also after a sandbox has taken it.
func Dir(home, name string) string { return filepath.Join(home, "shells", name) }

// maker makes and ends shells.
type maker struct {
	launcher *boot.Launcher
	podd     string
	log      *log.Logger
}

// make starts a shell. If it fails, it leaves nothing behind.
func (m *maker) make() (*Shell, error) {
	name := "sh" + random.Hex(7)
	shell := &Shell{Run: boot.NewRun(m.launcher.Home, name, Dir(m.launcher.Home, name))}
	if err := m.boot(shell); err != nil {
		m.discard(shell)
		return nil, err
	}
	shell.made = time.Now()
	return shell, nil
}

func (m *maker) boot(shell *Shell) error {
	if err := os.Mkdir(shell.Dir, 0o700); err != nil {
		return err
	}
	root, err := m.launcher.Stage.Blank(m.podd, keptMounts)
	if err != nil {
		return err
	}
	clock := stopwatch.New()
	b, err := m.launcher.Prepare(shell.Run, cgroup.Limits{}, clock)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Start(bundle.Spec{Hostname: "sandbox", Root: root}, mostFiles, clock); err != nil {
		return err
	}
	// podd changes its own mounts before it serves. Only then may its root be swapped.
	return shell.awaitPodd()
}

// awaitPodd returns when podd serves. If podd has ended it returns at once, instead of when the dial times
// out.
func (s *Shell) awaitPodd() error {
	answered := make(chan error, 1)
	go func() {
		_, err := s.AskHealth()
		answered <- err
	}()
	for {
		select {
		case err := <-answered:
			return err
		case <-time.After(20 * time.Millisecond):
			if !s.IsAlive() {
				return boot.ErrPoddEnded
			}
		}
	}
}

// end ends a shell and removes everything of it.
func (m *maker) end(shell *Shell) error {
	if err := m.launcher.End(shell.Run, stopwatch.New()); err != nil {
		return err
	}
	return safefs.RemoveTree(filepath.Join(m.launcher.Home, "shells"), shell.Name)
}

func (m *maker) discard(shell *Shell) {
	if err := m.end(shell); err != nil {
		m.log.Printf("shell %s: %v", shell.Name, err)
	}
}

// LimitFiles lowers the number of files that podd and all that it starts may open.
func (s *Shell) LimitFiles(asked int64) error {
	files, _ := boot.FileLimit(asked)
	if most, _ := boot.FileLimit(mostFiles); files == 0 || files == most {
		return nil
	}
	return boot.LowerLimit(s.Pid, unix.RLIMIT_NOFILE, files)
}

// SwapRoot makes the shell the sandbox with this root and host name.
func (s *Shell) SwapRoot(root, hostname string, asked hostproto.Resources) error {
	return mount.Swap{Pid: s.Pid, Root: root, Keep: keptMounts, Hostname: hostname,
		Sizes: map[string]int64{"/tmp": asked.TmpBytes, "/dev/shm": asked.ShmBytes}}.Do()
}
