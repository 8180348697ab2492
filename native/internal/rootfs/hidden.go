package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"syscall"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// Hidden lists, for each directory of a view, the files that not every user may read. Such a file may contain
// a secret of the host, and root inside would be its owner.
//
// SECURITY: LK-05. A `host` root shows what any user of the host could read, and no more.
type Hidden map[string][]string

// maxHidden bounds the files that are hidden one by one; a directory with more of them is not shown at all.
const maxHidden = 10000

// walkNice leaves a tenth of a busy processor to a walk in the background.
const walkNice = 10

// errStopped ends a walk whose result nobody needs any more.
var errStopped = errors.New("stopped")

// FindHidden walks the directories on all processors. It reads names and opens no file. It takes half a
// second for an ordinary /usr.
func FindHidden(dirs []string) (Hidden, error) {
	return findHidden(dirs, runtime.NumCPU(), nil)
}

// findHiddenQuietly walks the directories on one processor, which other work takes from it at any time. It
// ends early when stop is closed.
func findHiddenQuietly(dirs []string, stop <-chan struct{}) (hidden Hidden, err error) {
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		// The goroutine ends with the thread locked, so the thread ends too, and its priority with it.
		runtime.LockOSThread()
		// At the ordinary priority the walk is as good, but sandboxes start more slowly meanwhile.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), walkNice)
		hidden, err = findHidden(dirs, 0, stop)
	}()
	done.Wait()
	return hidden, err
}

func findHidden(dirs []string, helpers int, stop <-chan struct{}) (Hidden, error) {
	hidden := Hidden{}
	for _, dir := range dirs {
		source, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, err
		}
		w := walk{source: source, stop: stop, spare: make(chan struct{}, helpers)}
		w.directory("")
		w.wait.Wait()
		select {
		case <-stop:
			return nil, errStopped
		default:
		}
		if len(w.private) > maxHidden {
			w.private = []string{""}
		}
		if len(w.private) > 0 {
			sort.Strings(w.private)
			hidden[dir] = w.private
		}
	}
	return hidden, nil
}

// walk goes through one directory. It costs one system call per file.
type walk struct {
	source string
	stop   <-chan struct{}
	spare  chan struct{}
	wait   sync.WaitGroup

	mu      sync.Mutex
	private []string
}

// directory looks at the entries of one directory. Entries that disappear meanwhile, or that even podhost
// cannot read, are not visible to a sandbox either.
func (w *walk) directory(path string) {
	dir, err := os.Open(w.source + path)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		select {
		case <-w.stop:
			return
		default:
		}
		var stat unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		switch entry := path + "/" + name; {
		case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		case !isForEverybody(stat.Mode):
			w.mu.Lock()
			w.private = append(w.private, entry)
			w.mu.Unlock()
		case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
			w.descend(entry)
		}
	}
}

// descend hands a directory to a free processor, or walks it itself.
func (w *walk) descend(path string) {
	select {
	case w.spare <- struct{}{}:
		w.wait.Add(1)
		go func() {
			defer w.wait.Done()
			w.directory(path)
			<-w.spare
		}()
	default:
		w.directory(path)
	}
}

func isForEverybody(mode uint32) bool {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return mode&0o005 == 0o005
	}
	return mode&0o004 != 0
}

func (h Hidden) digest() string {
	data, _ := json.Marshal(h)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func loadHidden(path string) (Hidden, bool) {
	data, err := os.ReadFile(path)
	var hidden Hidden
	return hidden, err == nil && json.Unmarshal(data, &hidden) == nil
}

func (h Hidden) save(path string) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return safefs.WriteFile(path, data, 0o600)
}

// buildMask makes a tree of whiteouts over one directory, between it and a sandbox's upper. The directories
// on the way look as they do on the host.
func buildMask(target, dir string, private []string) error {
	source, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if err := likeness(source, target); err != nil {
		return err
	}
	for _, path := range private {
		if path == "" {
			// The whole directory is private: an opaque directory shows nothing of it.
			return unix.Setxattr(target, "trusted.overlay.opaque", []byte("y"), 0)
		}
		if err := maskParents(source, target, filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			// Its directory was removed since the walk, and the file with it.
			continue
		} else if err != nil {
			return err
		}
		if err := unix.Mknod(target+path, unix.S_IFCHR, 0); err != nil && err != unix.EEXIST {
			return fmt.Errorf("hide %s%s: %w", dir, path, err)
		}
	}
	return nil
}

func maskParents(source, target, dir string) error {
	if dir == "/" || dir == "." {
		return nil
	}
	if err := maskParents(source, target, filepath.Dir(dir)); err != nil {
		return err
	}
	return likeness(source+dir, target+dir)
}

// likeness makes a directory with the owner and mode of another.
func likeness(source, target string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	if err := os.Mkdir(target, 0o700); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	if err := os.Lchown(target, int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	return os.Chmod(target, info.Mode().Perm()|info.Mode()&(fs.ModeSetgid|fs.ModeSticky))
}
