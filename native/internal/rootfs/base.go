package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"syscall"

	"agentpod/native/internal/safefs"
)

// maxBaseBytes bounds what is copied from /etc.
const maxBaseBytes = 64 << 20

// base builds the tree below a `host` root's mounts: /etc, the usual empty directories, links and mount
// points. Its ids are shifted by shift.
type base struct {
	view  View
	shift int
	left  int64
}

// fingerprint changes when a rebuilt tree would differ. It reads only names and times, so it takes
// microseconds.
func (v View) fingerprint(shift int) string {
	sum := sha256.New()
	fmt.Fprintln(sum, "base 1", shift, v.Dirs, etcWritten)
	// The certificate bundle may be written in place, which does not change its directory.
	for _, list := range [][]string{etcSources(), v.Files, {"/etc/ssl/certs/ca-certificates.crt"}} {
		for _, path := range list {
			if info, err := os.Lstat(path); err == nil {
				fmt.Fprintln(sum, path, info.ModTime().UnixNano(), info.Size())
			}
		}
	}
	links := make([]string, 0, len(v.Links))
	for link, target := range v.Links {
		links = append(links, link+" "+target)
	}
	sort.Strings(links)
	fmt.Fprintln(sum, links)
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func etcSources() []string {
	var paths []string
	for _, pattern := range etcCopied {
		matches, _ := filepath.Glob(filepath.Join("/etc", pattern))
		paths = append(paths, matches...)
	}
	return paths
}

// A base is a directory with the tree below a root's mounts, and for some of the mounted directories a tree
// that hides files in it.
const rootTree = "root"

func maskTree(n int) string { return fmt.Sprintf("mask-%d", n) }

// buildBase makes the tree at dir if there is none. The tree is either complete or absent.
func buildBase(dir string, view View, shift int, hidden Hidden) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	parent, name := filepath.Split(dir)
	temporary := ".tmp-" + name
	if err := safefs.RemoveTree(parent, temporary); err != nil {
		return err
	}
	b := &base{view: view, shift: shift, left: maxBaseBytes}
	err := os.Mkdir(filepath.Join(parent, temporary), 0o700)
	if err == nil {
		err = b.build(filepath.Join(parent, temporary, rootTree))
	}
	for i, shown := range view.Dirs {
		if private := hidden[shown]; err == nil && len(private) > 0 {
			err = buildMask(filepath.Join(parent, temporary, maskTree(i)), shown, private)
		}
	}
	if err == nil {
		err = os.Rename(filepath.Join(parent, temporary), dir)
	}
	if err != nil {
		safefs.RemoveTree(parent, temporary)
	}
	return err
}

func (b *base) build(root string) error {
	if err := b.mkdir(root, 0o755, 0); err != nil {
		return err
	}
	plain := []string{"/dev", "/etc", "/home", "/media", "/mnt", "/proc", "/root", "/run", "/srv", "/sys", "/var",
		"/var/cache", "/var/lib", "/var/log", "/.agentpod"}
	for _, dir := range append(plain, b.view.Dirs...) {
		if err := b.mkdirAll(root, dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if err := b.mkdir(root+dir, 0o777|os.ModeSticky, 0); err != nil {
			return err
		}
	}
	if err := b.mkdirAll(root, "/home/user"); err != nil {
		return err
	}
	if err := os.Lchown(root+"/home/user", b.shift+1000, b.shift+1000); err != nil {
		return err
	}
	links := map[string]string{"/var/run": "/run", "/var/lock": "/run/lock", "/etc/mtab": "/proc/self/mounts", "/etc/localtime": "/usr/share/zoneinfo/Etc/UTC"}
	for link, target := range b.view.Links {
		links[link] = target
	}
	for link, target := range links {
		if err := b.symlink(target, root+link); err != nil {
			return err
		}
	}
	if err := b.write(root+"/.agentpod/podd", nil, 0o444); err != nil {
		return err
	}
	return b.files(root)
}

func (b *base) files(root string) error {
	for _, path := range append(etcSources(), b.view.Files...) {
		if err := b.mkdirAll(root, filepath.Dir(path)); err != nil {
			return err
		}
		if err := b.copy(path, root+path); err != nil {
			return err
		}
	}
	for name, text := range etcWritten {
		mode := os.FileMode(0o644)
		if name == "shadow" {
			mode = 0o600
		}
		if err := b.write(root+"/etc/"+name, []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

func (b *base) mkdirAll(root, path string) error {
	if path == "/" || path == "." {
		return nil
	}
	if err := b.mkdirAll(root, filepath.Dir(path)); err != nil {
		return err
	}
	return b.mkdir(root+path, 0o755, 0)
}

func (b *base) mkdir(path string, mode os.FileMode, owner int) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return os.Lchown(path, b.shift+owner, b.shift+owner)
}

func (b *base) write(path string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, data, mode); err != nil {
		return err
	}
	return os.Lchown(path, b.shift, b.shift)
}

func (b *base) symlink(target, path string) error {
	if err := os.Symlink(target, path); err != nil && !os.IsExist(err) {
		return err
	}
	return os.Lchown(path, b.shift, b.shift)
}

// copy copies a file, link or directory that every user of the host may read, and skips the rest.
func (b *base) copy(source, target string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return nil
	}
	switch mode := info.Mode(); {
	case mode&os.ModeSymlink != 0:
		link, err := os.Readlink(source)
		if err != nil {
			return nil
		}
		return b.symlink(link, target)
	case mode.IsDir() && mode.Perm()&0o005 == 0o005:
		if err := b.mkdir(target, mode.Perm(), 0); err != nil {
			return err
		}
		entries, _ := os.ReadDir(source)
		for _, entry := range entries {
			if err := b.copy(filepath.Join(source, entry.Name()), filepath.Join(target, entry.Name())); err != nil {
				return err
			}
		}
	case mode.IsRegular() && mode.Perm()&0o004 != 0 && info.Size() <= b.left:
		return b.copyFile(source, target, mode.Perm())
	}
	return nil
}

func (b *base) copyFile(source, target string, mode os.FileMode) error {
	in, err := os.OpenFile(source, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(in, b.left))
	b.left -= n
	if err != nil {
		return err
	}
	return out.Chown(b.shift, b.shift)
}
