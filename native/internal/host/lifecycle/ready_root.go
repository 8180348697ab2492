package lifecycle

import (
	"errors"
	"os"
	"path/filepath"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/stopwatch"

	"golang.org/x/sys/unix"
)

// Most sandboxes begin with this machine's tools and no files of their own. Their root is the same for all of
// them, so a shell gets it before the sandbox is known, and the sandbox only adds its limits and its name.

// hostRoot is the root that ready roots have.
var hostRoot = hostproto.Root{Kind: "host"}

// readySizes returns the sizes that a ready root for this sandbox has; nil if it needs a root of its own.
func readySizes(args hostproto.CreateSandbox) *shells.Sizes {
	if args.Runtime != string(boot.Container) || args.Root.Kind != hostRoot.Kind || len(args.Root.Over) > 0 || args.Snapshot != "" || len(args.Mounts) > 0 || len(args.RootDirs) > 0 {
		return nil
	}
	return &shells.Sizes{Tmp: args.Resources.TmpBytes, Shm: args.Resources.ShmBytes}
}

// GiveRoot makes a root for the shell in an entry of the pool that has the shell's name. An entry without a
// sandbox of its name is removed when podhost starts. Without a pool the files of a sandbox are in its own
// directory, which a shell does not have, so the shell stays in the blank root.
func (s *Sandboxes) GiveRoot(shell *shells.Shell, sizes shells.Sizes) error {
	files, err := s.Pool.Entry(pool.Sandboxes, shell.Name)
	if err != nil || !files.IsVolume || s.Pool.CheckSpace() != nil {
		return nil
	}
	if err := s.Pool.Create(files, 0); err != nil {
		return err
	}
	root := &shells.ReadyRoot{Files: files, Sizes: sizes}
	defer s.Launcher.Stage.ReleaseRoot(shell.Name)
	if err = s.swapReadyRoot(shell, root); err == nil {
		err = shell.SetRoot(root)
	}
	if err != nil {
		root.Close()
		if undo := s.Pool.Remove(files); undo != nil {
			s.Log.Printf("shell %s: %v", shell.Name, undo)
		}
		return err
	}
	// podd prepares what it can. A podd that fails to answer is found when a sandbox needs it.
	if err := shell.TellRoot(); err != nil {
		s.Log.Printf("shell %s: %v", shell.Name, err)
	}
	return nil
}

func (s *Sandboxes) swapReadyRoot(shell *shells.Shell, root *shells.ReadyRoot) error {
	user, err := shell.UserNamespace()
	if err != nil {
		return err
	}
	defer user.Close()
	mounted, err := s.Builder.Mount(rootfs.Plan{ID: shell.Name, IDs: s.rootIDs(shell.IDs, user), Data: s.Pool.Path(root.Files), Root: hostRoot,
		Hostname: boot.Hostname, Files: rootfs.NewFiles})
	if err != nil {
		return err
	}
	root.Base, root.Env = mounted.Base, mounted.Env
	if root.Etc, err = os.OpenFile(filepath.Join(mounted.Path, "etc"), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
		return err
	}
	return s.Shells.SwapRoot(shell, shells.NewRoot{Path: mounted.Path, Hostname: boot.Hostname, Sizes: root.Sizes})
}

// IsCurrent reports whether a new sandbox would still get this root.
func (s *Sandboxes) IsCurrent(root *shells.ReadyRoot) bool {
	return s.Builder.IsKnownCurrent(root.Base)
}

// RemoveRoot removes the files of a root that no sandbox has taken.
func (s *Sandboxes) RemoveRoot(root *shells.ReadyRoot) error { return s.Pool.Remove(root.Files) }

var errOutdated = errors.New("its root is outdated")

// startReady makes a shell with a ready root the sandbox. If it fails, the shell has ended and the sandbox
// has no files.
func (s *Sandboxes) startReady(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox, clock *stopwatch.Stopwatch) error {
	root := shell.Root
	if !s.Builder.IsCurrent(root.Base) {
		s.Shells.Discard(shell)
		return errOutdated
	}
	if err := s.Pool.Rename(root.Files, handle.files()); err != nil {
		s.Shells.Discard(shell)
		return err
	}
	root.Files = handle.files()
	err := s.occupyReady(shell, handle, args)
	if err != nil {
		// Its files are the sandbox's already, and go with the shell.
		s.Shells.Discard(shell)
		return err
	}
	root.Close()
	clock.Lap("ready root")
	handle.Base, handle.Env = root.Base, root.Env
	handle.Shell = shell.Name
	handle.setRun(shell.Run)
	return nil
}

func (s *Sandboxes) occupyReady(shell *shells.Shell, handle *Handle, args hostproto.CreateSandbox) error {
	if handle.DiskBytes > 0 {
		if err := s.Pool.SetLimit(handle.files(), handle.DiskBytes); err != nil {
			return err
		}
	}
	if err := s.limit(shell, handle, args.Resources); err != nil {
		return err
	}
	if err := rootfs.Identify(shell.Root.Etc, args.Hostname); err != nil {
		return err
	}
	if err := shell.Root.SetHostname(args.Hostname); err != nil {
		return err
	}
	// None of these steps needs podd itself.
	if !shell.IsAlive() {
		return boot.ErrPoddEnded
	}
	return nil
}
