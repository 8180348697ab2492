// Package shells starts blank shells and keeps some ready, which makes a sandbox start faster. A shell is a
// sandbox without files, limits or a name: its namespaces, groups and filter exist, and podd runs in an
// empty root. A sandbox that starts takes one and swaps its own root in. A shell may also wait in the root
// of a plain sandbox (ReadyRoot). It has run nothing before, and is never used again.
package shells

import (
	"log"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/random"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// KeptMounts are the mounts that move from the shell's root to the sandbox's.
var KeptMounts = []string{"/proc", "/dev", "/sys", "/tmp", "/run"}

// A Shell is a podd that waits for a sandbox.
type Shell struct {
	*boot.Run
	// Root is the root that it already runs in; nil for the blank root.
	Root *ReadyRoot
}

// maker starts and ends shells.
type maker struct {
	launcher *boot.Launcher
	runtime  boot.Runtime
	// awaits: its shells await memory that was saved.
	awaits bool
	roots  RootMaker
	log    *log.Logger
}

// Start starts a shell. podd still prepares itself when Start returns. If taken is not nil, the shell runs as
// these ids. With docker, root inside may run a container engine. If Start fails, it leaves nothing behind.
func (m *maker) Start(taken *ids.Range, docker bool) (*Shell, error) {
	shell := &Shell{Run: boot.NewRun(m.launcher.Home, "sh"+random.Hex(7), m.runtime)}
	shell.Docker, shell.Awaits = docker, m.awaits
	shell.SetIDs(taken)
	if err := m.launcher.Start(shell.Run); err != nil {
		m.Discard(shell)
		return nil, err
	}
	return shell, nil
}

// AwaitReady returns when podd serves. Only then may the root be swapped, because podd changes its own mounts
// before.
func (m *maker) AwaitReady(shell *Shell) error { return m.launcher.AwaitReady(shell.Run) }

// Discard ends a shell and removes everything of it.
func (m *maker) Discard(shell *Shell) {
	err := m.launcher.End(shell.Run, stopwatch.New())
	if shell.Root != nil && err == nil {
		shell.Root.Close()
		err = m.roots.RemoveRoot(shell.Root)
	}
	if err != nil {
		m.log.Printf("shell %s: %v", shell.Name, err)
	}
}

// EndKeepingIDs ends a shell. Its ids are not freed: the caller owns them now.
func (m *maker) EndKeepingIDs(shell *Shell) (*ids.Range, error) {
	kept := shell.IDs
	shell.UIDBase = 0
	return kept, m.launcher.End(shell.Run, stopwatch.New())
}

// LimitFiles lowers the number of files that podd and all that it starts may open.
func (s *Shell) LimitFiles(asked int64) error {
	if s.Runtime == boot.GVisor {
		// podd sets it when it enters its root: the limits of gVisor's own processes are others.
		return nil
	}
	files, _ := boot.FileLimit(asked)
	if most := boot.ShellFiles(); files == 0 || files == most {
		return nil
	}
	return boot.LowerLimit(s.Pid, unix.RLIMIT_NOFILE, files)
}

// A NewRoot is the root that a shell in the blank root gets.
type NewRoot struct {
	// Path is where it is mounted on the stage.
	Path     string
	Hostname string
	Sizes    Sizes
	// Dirs are directories that belong to the root: the temporary file systems there end with the blank root.
	Dirs []string
	// Files is the limit on open files, for gVisor; 0 for none.
	Files int64
}

// SwapRoot gives the shell in the blank root this root and host name.
func (m *maker) SwapRoot(shell *Shell, root NewRoot) error {
	keep, sizes := Kept(root.Dirs, root.Sizes)
	if shell.Runtime == boot.GVisor {
		files, _ := boot.FileLimit(root.Files)
		return m.launcher.EnterRoot(shell.Run, root.Path, lateroot.Order{Hostname: root.Hostname, Keep: keep, Sizes: sizes}, files)
	}
	return mount.Swap{Pid: shell.Pid, Root: root.Path, Hostname: root.Hostname, Keep: keep, Sizes: sizes}.Do()
}

// Kept returns the mounts that move to a sandbox's root, and the sizes of temporary file systems. dirs belong
// to the root.
func Kept(dirs []string, asked Sizes) (keep []string, sizes map[string]int64) {
	keep, sizes = []string{}, map[string]int64{"/tmp": asked.Tmp, "/dev/shm": asked.Shm}
	for _, dir := range KeptMounts {
		if !contains(dirs, dir) {
			keep = append(keep, dir)
		} else {
			delete(sizes, dir)
		}
	}
	return keep, sizes
}

func contains(list []string, text string) bool {
	for _, one := range list {
		if one == text {
			return true
		}
	}
	return false
}
