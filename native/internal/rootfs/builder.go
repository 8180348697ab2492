package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/random"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// A Builder mounts roots on its stage.
type Builder struct {
	// Home is the state directory; Podd is a read-only copy of podd in it.
	Home, Podd string
	Stage      *mount.Stage
	// Stored is the range of ids that the files in uppers have on the disk.
	Stored   mount.Range
	Rootless bool
	View     View
	// Walks is where all podhosts of the machine record what they find in it. Only root can read it. "" means
	// nowhere.
	Walks string

	mu        sync.Mutex
	checked   time.Time
	checkedAs string
	hidden    Hidden
	walked    time.Time
	used      bool
}

// A Mounted root is ready for the runtime. Base, if set, names the tree that must stay as long as the sandbox
// runs.
type Mounted struct {
	Path string
	Base string
	Env  map[string]string
}

// Shift is what is added to ids in base trees and layers: nothing if mounts shift them.
func (b *Builder) Shift() int {
	if b.Stage.Shifted() {
		return 0
	}
	return b.Stored.Base
}

// Files says what a sandbox's data directory contains when its root is mounted.
type Files int

const (
	// NewFiles: nothing yet.
	NewFiles Files = iota
	// OwnFiles: the files that the same sandbox left there.
	OwnFiles
	// CopiedFiles: files of another sandbox; the sandbox gets its own identity.
	CopiedFiles
)

// IDs relate the ids that a sandbox runs as to those on the disk.
type IDs struct {
	// Range is the ids that it runs as.
	Range mount.Range
	// Plain maps the ids of the host's directories, base trees and layers to them; nil if mounts cannot shift
	// ids.
	Plain *os.File
	// Stored maps the ids of uppers to them; nil if uppers are stored with them.
	Stored *os.File
}

// A Plan is a root to mount.
type Plan struct {
	ID  string
	IDs IDs
	// Data is for the uppers and work directories. They must share one file system, and one subvolume.
	Data string
	Root hostproto.Root
	// Over are the uppers of the snapshots that Root names, in its order: one directory for each, which
	// contains a directory for each upper.
	Over     []string
	Hostname string
	Files    Files

	shifts *mount.Shifts
}

// isOurs reports whether only podhost can have written the parts of the root.
func (plan Plan) isOurs() bool {
	return plan.Root.Kind == "host" && plan.Files == NewFiles && len(plan.Over) == 0
}

// Mount assembles a root. The caller releases it with Stage.ReleaseRoot, also after an error.
func (b *Builder) Mount(plan Plan) (Mounted, error) {
	path, shifts, err := b.Stage.Root(plan.ID)
	if err != nil {
		return Mounted{}, err
	}
	plan.shifts = shifts
	defer shifts.Close()
	// The data is reached through a descriptor, so that a long path of the state directory does not overrun
	// the mount options.
	at, err := plan.openUpper(plan.Data)
	if err != nil {
		return Mounted{}, err
	}
	defer at.Close()
	for _, name := range []string{"upper", "work"} {
		err := os.Mkdir(filepath.Join(plan.Data, name), 0o700)
		if err != nil && (plan.Files == NewFiles || !os.IsExist(err)) {
			return Mounted{}, err
		}
	}
	m := Mounted{Path: path}
	if plan.Root.Kind == "host" {
		m.Base, m.Env, err = b.mountHost(path, at, plan)
	} else {
		err = b.mountLayers(path, at, plan)
	}
	if err != nil {
		return m, err
	}
	return m, b.Stage.Bind(b.Podd, filepath.Join(path, ".agentpod/podd"))
}

// openUpper opens a directory of uppers, or one above them, with the sandbox's ids.
func (plan Plan) openUpper(path string) (*os.File, error) {
	if plan.IDs.Stored == nil {
		return os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	}
	fd, err := plan.shifts.Open(path, plan.IDs.Stored)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (plan Plan) mkdir(path string, uid, gid int) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return os.Chown(path, plan.IDs.Range.Base+uid, plan.IDs.Range.Base+gid)
}

func (b *Builder) mountHost(path string, at *os.File, plan Plan) (string, map[string]string, error) {
	base, err := b.base()
	if err != nil {
		return "", nil, fmt.Errorf("base tree: %w", err)
	}
	below, err := plan.snapshotLowers("/")
	if err != nil {
		return "", nil, err
	}
	defer below.close()
	upper, work, err := plan.upper(at, "/", 0, 0, &below)
	if err != nil {
		return "", nil, err
	}
	if plan.isOurs() {
		// Nothing inside can have written there yet, so writing to the upper directly is safe, and faster.
		if err := plan.mkdir(upper+"/etc", 0, 0); err != nil {
			return "", nil, err
		}
		for name, text := range identity(plan.Hostname) {
			if err := plan.writeOwned(upper+"/etc/"+name, text); err != nil {
				return "", nil, err
			}
		}
	}
	if err := b.addOwn(&below, filepath.Join(b.Home, "base", base, rootTree), plan); err != nil {
		return "", nil, err
	}
	overlay := mount.Overlay{Lower: below.paths, Upper: upper, Work: work, UserXattr: b.Rootless}
	if err := overlay.Mount(path); err != nil {
		return "", nil, err
	}
	if !plan.isOurs() {
		if err := plan.prepareRoot(path); err != nil {
			return "", nil, err
		}
	}
	root, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", nil, err
	}
	defer unix.Close(root)
	for i := range b.View.Dirs {
		if err := b.mountDir(root, at, i, base, plan); err != nil {
			return "", nil, err
		}
	}
	return base, b.View.Env, nil
}

// addLower adds a directory below the others, with the sandbox's ids if mounts can shift them.
func (b *Builder) addLower(below *lowers, source string, plan Plan) (shifted bool, err error) {
	if plan.IDs.Plain != nil {
		fd, err := plan.shifts.Open(source, plan.IDs.Plain)
		if err == nil {
			below.addDescriptor(fd)
		}
		if !errors.Is(err, mount.ErrPlain) {
			return true, err
		}
	}
	path, err := b.Stage.Lower(source)
	if err == nil {
		below.add(path)
	}
	return false, err
}

// addOwn is addLower for a tree of the state directory, whose ids were stored as this file system needs them.
func (b *Builder) addOwn(below *lowers, tree string, plan Plan) error {
	shifted, err := b.addLower(below, tree, plan)
	if err == nil && shifted != b.Stage.Shifted() {
		err = fmt.Errorf("%s cannot be mounted with shifted ids", tree)
	}
	return err
}

// mountDir shows one of the host's directories under what the plan's snapshots have of it. The directory is
// writable through a private upper if its ids can be shifted, or at addOns; otherwise it is read-only. An
// overlay is used even without an upper: through a plain bind mount, programs inside could connect to the
// host's unix sockets.
//
// SECURITY: FS-13. Root inside cannot change the mount point, but it can move a directory above it and leave
// a link in its place. So the mount point is looked up without following links.
func (b *Builder) mountDir(root int, at *os.File, n int, base string, plan Plan) error {
	dir := b.View.Dirs[n]
	point, err := plan.mountPoint(root, dir)
	if err != nil {
		return err
	}
	defer unix.Close(point)
	target := fmt.Sprintf("/proc/self/fd/%d", point)
	source, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	below, err := plan.snapshotLowers(dir)
	if err != nil {
		return err
	}
	defer below.close()
	mask := filepath.Join(b.Home, "base", base, maskTree(n))
	if exists(mask) {
		if err := b.addOwn(&below, mask, plan); err != nil {
			return err
		}
	}
	shifted, err := b.addLower(&below, source, plan)
	if err != nil {
		return err
	}
	if !shifted && dir != addOns {
		below.add(b.Stage.Empty())
		return mount.Overlay{Lower: below.paths, UserXattr: b.Rootless}.Mount(target)
	}
	uid, gid := 0, 0
	if info, err := os.Stat(source); err == nil && shifted {
		count := plan.IDs.Range.Count
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) < count && int(stat.Gid) < count {
			uid, gid = int(stat.Uid), int(stat.Gid)
		}
	}
	upper, work, err := plan.upper(at, dir, uid, gid, &below)
	if err != nil {
		return err
	}
	return mount.Overlay{Lower: below.paths, Upper: upper, Work: work, UserXattr: b.Rootless}.Mount(target)
}

// addOns is where builds install toolchains beside the host's. Root inside can add files to it on every file
// system. Without shifted ids, no user inside owns the host's files there, so they cannot be changed.
const addOns = "/opt"

func (plan Plan) writeOwned(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Chown(path, plan.IDs.Range.Base, plan.IDs.Range.Base)
}

// Identify gives a root that no sandbox has used yet its host name. etc is its /etc.
func Identify(etc *os.File, hostname string) error {
	for name, text := range identity(hostname) {
		if name == machineID {
			// It is unique already.
			continue
		}
		fd, err := safefs.OpenBeneath(int(etc.Fd()), name, unix.O_WRONLY|unix.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte(text))
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

const machineID = "machine-id"

// identity has the files by which one sandbox's /etc differs from another's.
func identity(hostname string) map[string]string {
	return map[string]string{
		machineID:  random.Hex(16) + "\n",
		"hostname": hostname + "\n",
		"hosts":    hostsTemplate + hostname + "\n",
	}
}

// mountLayers stacks layers, lowest first, and the plan's snapshots over them.
func (b *Builder) mountLayers(path string, at *os.File, plan Plan) error {
	below, err := plan.snapshotLowers("/")
	if err != nil {
		return err
	}
	defer below.close()
	upper, work, err := plan.upper(at, "/", 0, 0, &below)
	if err != nil {
		return err
	}
	layers := plan.Root.Layers
	for i := len(layers) - 1; i >= 0; i-- {
		if err := b.addOwn(&below, filepath.Join(b.Home, "layers", layers[i], "tree"), plan); err != nil {
			if errors.Is(err, unix.ENOENT) {
				return hostproto.Errorf(hostproto.NotFound, "layer.absent", "there is no layer %s", layers[i])
			}
			return err
		}
	}
	if err := (mount.Overlay{Lower: below.paths, Upper: upper, Work: work, UserXattr: b.Rootless}).Mount(path); err != nil {
		return err
	}
	return plan.prepareRoot(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
