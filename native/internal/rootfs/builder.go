package rootfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// A Builder mounts roots on its stage.
type Builder struct {
	// Home is the state directory; Podd a read-only copy of podd in it.
	Home, Podd string
	Stage      *mount.Stage
	Range      mount.Range
	Rootless   bool
	View       View

	mu        sync.Mutex
	checked   time.Time
	checkedAs string
	hidden    Hidden
	walked    time.Time
	used      bool
}

// A Mounted root is ready for the runtime. Base, if any, names the tree that must stay as long as the sandbox lives.
type Mounted struct {
	Path string
	Base string
	Env  map[string]string
}

// Shift is what ids in base trees and layers are stored with: nothing where mounts shift them.
func (b *Builder) Shift() int {
	if b.Stage.Shifted() {
		return 0
	}
	return b.Range.Base
}

// Mount assembles root for the sandbox whose directory is dir. The caller releases it with Stage.ReleaseRoot, also after an error.
func (b *Builder) Mount(id, dir string, root hostproto.Root, hostname string) (Mounted, error) {
	path, err := b.Stage.Root(id)
	if err != nil {
		return Mounted{}, err
	}
	// The sandbox's directory is reached through a descriptor, so that no length of the state directory's path can
	// overrun the mount options.
	at, err := os.Open(dir)
	if err != nil {
		return Mounted{}, err
	}
	defer at.Close()
	for _, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return Mounted{}, err
		}
	}
	m := Mounted{Path: path}
	if root.Kind == "host" {
		m.Base, m.Env, err = b.mountHost(path, at, hostname)
	} else {
		err = b.mountLayers(path, at, root.Layers, hostname)
	}
	if err != nil {
		return m, err
	}
	return m, b.Stage.Bind(b.Podd, filepath.Join(path, ".agentpod/podd"))
}

// upper makes the n-th upper and work directory, the upper owned by the sandbox's uid and gid as its merged root is to be.
func (b *Builder) upper(at *os.File, n, uid, gid int) (upper, work string, err error) {
	dir := fmt.Sprintf("/proc/self/fd/%d", at.Fd())
	upper, work = fmt.Sprintf("%s/upper/%d", dir, n), fmt.Sprintf("%s/work/%d", dir, n)
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", "", err
	}
	return upper, work, b.mkdir(upper, uid, gid)
}

func (b *Builder) mkdir(path string, uid, gid int) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return os.Chown(path, b.Range.Base+uid, b.Range.Base+gid)
}

func (b *Builder) mountHost(path string, at *os.File, hostname string) (string, map[string]string, error) {
	base, err := b.base()
	if err != nil {
		return "", nil, fmt.Errorf("base tree: %w", err)
	}
	lower, err := b.ownLower(filepath.Join(b.Home, "base", base, rootTree))
	if err != nil {
		return "", nil, err
	}
	upper, work, err := b.upper(at, 0, 0, 0)
	if err != nil {
		return "", nil, err
	}
	if err := b.mkdir(upper+"/etc", 0, 0); err != nil {
		return "", nil, err
	}
	for name, text := range identity(hostname) {
		if err := b.writeOwned(upper+"/etc/"+name, text); err != nil {
			return "", nil, err
		}
	}
	overlay := mount.Overlay{Lower: []string{lower}, Upper: upper, Work: work, UserXattr: b.Rootless}
	if err := overlay.Mount(path); err != nil {
		return "", nil, err
	}
	for i, dir := range b.View.Dirs {
		if err := b.mountDir(path+dir, at, i+1, base); err != nil {
			return "", nil, err
		}
	}
	return base, b.View.Env, nil
}

// ownLower mounts a tree of the state directory, whose ids were stored for what this file system can do.
func (b *Builder) ownLower(tree string) (string, error) {
	lower, shifted, err := b.Stage.Lower(tree)
	if err == nil && shifted != b.Stage.Shifted() {
		err = fmt.Errorf("%s cannot be mounted with shifted ids", tree)
	}
	return lower, err
}

// mountDir shows one of the host's directories: under a private upper where its ids can be shifted, else read-only. An
// overlay without upper is not a detour for the latter: through a plain bind mount, the host's unix sockets could be connected to.
func (b *Builder) mountDir(target string, at *os.File, n int, base string) error {
	dir := b.View.Dirs[n-1]
	source, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	lower, shifted, err := b.Stage.Lower(source)
	if err != nil {
		return err
	}
	if !shifted {
		return mount.Overlay{Lower: []string{lower, b.Stage.Empty()}, UserXattr: b.Rootless}.Mount(target)
	}
	uid, gid := 0, 0
	if info, err := os.Stat(source); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) < b.Range.Count && int(stat.Gid) < b.Range.Count {
			uid, gid = int(stat.Uid), int(stat.Gid)
		}
	}
	upper, work, err := b.upper(at, n, uid, gid)
	if err != nil {
		return err
	}
	lowers := []string{lower}
	if mask := filepath.Join(b.Home, "base", base, maskTree(n-1)); exists(mask) {
		masked, err := b.ownLower(mask)
		if err != nil {
			return err
		}
		lowers = []string{masked, lower}
	}
	return mount.Overlay{Lower: lowers, Upper: upper, Work: work}.Mount(target)
}

// base returns the name of the current base tree, and looks for changes at most every five seconds.
func (b *Builder) base() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = true
	if b.checkedAs != "" && time.Since(b.checked) < 5*time.Second {
		return b.checkedAs, nil
	}
	if err := os.MkdirAll(filepath.Join(b.Home, "base"), 0o700); err != nil {
		return "", err
	}
	if err := b.findHidden(); err != nil {
		return "", fmt.Errorf("look for private files: %w", err)
	}
	name := "host-" + b.View.fingerprint(b.Shift()) + "-" + b.hidden.digest()
	if err := buildBase(filepath.Join(b.Home, "base", name), b.View, b.Shift(), b.hidden); err != nil {
		return "", err
	}
	b.checked, b.checkedAs = time.Now(), name
	return name, nil
}

// findHidden uses what an earlier walk found, if any: a walk takes a second, and Refresh follows. Where ids are not shifted nothing need be
// hidden, since nobody inside owns a file of the host.
func (b *Builder) findHidden() error {
	if b.hidden != nil || !b.Stage.Shifted() {
		return nil
	}
	if hidden, found := loadHidden(b.hiddenFile()); found {
		b.hidden = hidden
		return nil
	}
	hidden, err := FindHidden(b.View.Dirs, nil)
	if err != nil {
		return err
	}
	b.hidden, b.walked = hidden, time.Now()
	return hidden.save(b.hiddenFile())
}

func (b *Builder) hiddenFile() string { return filepath.Join(b.Home, "base", "hidden.json") }

// refreshEvery is how old a walk may be while sandboxes are made from it.
const refreshEvery = time.Minute

// IsStale reports whether sandboxes have been made since a walk that is too old, or with one of an earlier podhost.
func (b *Builder) IsStale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Stage.Shifted() && b.hidden != nil && (b.walked.IsZero() || b.used && time.Since(b.walked) > refreshEvery)
}

// Refresh walks the host's directories; sandboxes from then on hide what it finds.
func (b *Builder) Refresh(stop <-chan struct{}) error {
	hidden, err := FindHidden(b.View.Dirs, stop)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hidden, b.checkedAs, b.walked, b.used = hidden, "", time.Now(), false
	return hidden.save(b.hiddenFile())
}

// Prepare builds the base tree ahead of the first sandbox and removes those that no sandbox stands on.
func (b *Builder) Prepare(used map[string]bool) error {
	current, err := b.base()
	if err != nil {
		return err
	}
	entries, _ := os.ReadDir(filepath.Join(b.Home, "base"))
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && name != current && !used[name] {
			if err := safefs.RemoveTree(filepath.Join(b.Home, "base"), name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Clear removes every base tree; the next `host` root builds its own. No root may be mounted meanwhile.
func (b *Builder) Clear() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checkedAs, b.hidden = "", nil
	dir := filepath.Join(b.Home, "base")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		b.forget(entry.Name())
		if err := safefs.RemoveTree(dir, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) writeOwned(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Chown(path, b.Range.Base, b.Range.Base)
}

// identity is what makes one sandbox's /etc differ from another's.
func identity(hostname string) map[string]string {
	return map[string]string{
		"machine-id": RandomHex(16) + "\n",
		"hostname":   hostname + "\n",
		"hosts":      hostsTemplate + hostname + "\n",
	}
}

// RandomHex returns n random bytes as text.
func RandomHex(n int) string {
	data := make([]byte, n)
	if _, err := rand.Read(data); err != nil {
		panic(err)
	}
	return hex.EncodeToString(data)
}

// mountLayers stacks layers, lowest first.
func (b *Builder) mountLayers(path string, at *os.File, layers []string, hostname string) error {
	var lowers []string
	for i := len(layers) - 1; i >= 0; i-- {
		lower, err := b.ownLower(filepath.Join(b.Home, "layers", layers[i], "tree"))
		if err != nil {
			if errors.Is(err, unix.ENOENT) {
				return hostproto.Errorf(hostproto.NotFound, "layer.absent", "layer %s is not here", layers[i])
			}
			return err
		}
		lowers = append(lowers, lower)
	}
	upper, work, err := b.upper(at, 0, 0, 0)
	if err != nil {
		return err
	}
	if err := (mount.Overlay{Lower: lowers, Upper: upper, Work: work, UserXattr: b.Rootless}).Mount(path); err != nil {
		return err
	}
	return b.furnish(path, hostname)
}

// forget drops the mounts of a base tree, so that it can be removed.
func (b *Builder) forget(name string) {
	dir := filepath.Join(b.Home, "base", name)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		b.Stage.Forget(filepath.Join(dir, entry.Name()))
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
