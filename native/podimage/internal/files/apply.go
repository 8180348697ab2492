// Package files changes the files of a root as BuildKit does. It runs inside a sandbox, as root, and the root
// of the sandbox is the root that it changes.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentpod/podimage/internal/actions"

	cfs "github.com/containerd/continuity/fs"
	"github.com/moby/sys/user"
	fscopy "github.com/tonistiigi/fsutil/copy"
)

// A Work is what `podfiles apply` does.
type Work struct {
	// Sources are the directories that copies read from, by the number of their vertex.
	Sources map[int]string   `json:"sources"`
	Actions []actions.Action `json:"actions"`
}

// ownDirectory has files of AgentPod in every root. It is no part of what a Dockerfile copies.
const ownDirectory = ".agentpod"

// Apply performs the actions on the root.
func Apply(ctx context.Context, root string, work Work) error {
	for _, action := range work.Actions {
		if err := apply(ctx, root, work.Sources, action); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, root string, sources map[int]string, action actions.Action) error {
	switch {
	case action.Copy != nil:
		source, ok := sources[action.Copy.From]
		if !ok {
			return errors.New("there is no such source")
		}
		return plain(copyFiles(ctx, root, source, action.Copy), source)
	case action.Mkdir != nil:
		return plain(mkdir(root, action.Mkdir), root)
	case action.Mkfile != nil:
		return plain(mkfile(root, action.Mkfile), root)
	case action.Rm != nil:
		return plain(remove(root, action.Rm), root)
	case action.Symlink != nil:
		return plain(symlink(root, action.Symlink), root)
	}
	return errors.New("the action is empty")
}

// plain names paths as the Dockerfile does.
func plain(err error, root string) error {
	var path *fs.PathError
	if errors.As(err, &path) && root != "/" {
		path.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(path.Path, root), "/")
	}
	return err
}

func copyFiles(ctx context.Context, root, source string, c *actions.Copy) error {
	owner, err := ownerOf(root, c.Owner)
	if err != nil {
		return err
	}
	for _, needed := range c.Required {
		found, err := fscopy.ResolveWildcards(source, clean(needed), c.FollowSymlink)
		if err == nil && len(found) == 0 {
			return fmt.Errorf("%s: not found", needed)
		}
		if err != nil {
			return err
		}
	}
	if !c.CreateDestPath {
		dest, err := cfs.RootPath(root, filepath.Join("/", c.Dest))
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Dir(dest)); err != nil {
			return err
		}
	}
	names := []string{clean(c.Src)}
	if c.Wildcard {
		names, err = fscopy.ResolveWildcards(source, clean(c.Src), c.FollowSymlink)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: not found", c.Src)
		}
		if err != nil {
			return err
		}
		if len(names) == 0 && c.EmptyWildcard && strings.ContainsAny(c.Src, "*?[") {
			return nil
		}
		if len(names) == 0 {
			return fmt.Errorf("%s: not found", c.Src)
		}
	}
	for _, name := range names {
		if found, err := cfs.RootPath(source, name); err != nil {
			return err
		} else if _, err := os.Lstat(found); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: not found", c.Src)
		}
		if filepath.Clean(name) == "/"+ownDirectory || filepath.Clean(name) == ownDirectory {
			continue
		}
		if c.Unpack {
			isDone, err := unpack(root, source, name, clean(c.Dest), owner, timeOf(c.Timestamp))
			if err != nil {
				return err
			}
			if isDone {
				continue
			}
		}
		if err := fscopy.Copy(ctx, source, name, root, clean(c.Dest), options(c, name, owner)); err != nil {
			return err
		}
	}
	return nil
}

func options(c *actions.Copy, name string, owner *fscopy.User) fscopy.Opt {
	return func(info *fscopy.CopyInfo) {
		info.IncludePatterns = c.Include
		info.ExcludePatterns = c.Exclude
		if filepath.Clean(name) == "/" {
			// The kernel's directories are mounts of the sandbox, which nothing can change.
			info.ExcludePatterns = append(append([]string{}, c.Exclude...), ownDirectory, "proc", "sys", "dev")
		}
		info.Chown = chowner(owner)
		info.Utime = timeOf(c.Timestamp)
		if c.ModeText != "" {
			info.ModeStr = c.ModeText
		} else if mode := int(c.Mode); mode != -1 {
			info.Mode = &mode
		}
		info.CopyDirContents = c.DirContents
		info.FollowLinks = c.FollowSymlink
		info.AlwaysReplaceExistingDestPaths = c.Replace
		// Attributes that the file system of the sandbox does not take are left out.
		info.XAttrErrorHandler = func(_, _, _ string, _ error) error { return nil }
	}
}

func chowner(owner *fscopy.User) fscopy.Chowner {
	return func(old *fscopy.User) (*fscopy.User, error) {
		if owner == nil {
			return old, nil
		}
		return owner, nil
	}
}

func mkdir(root string, m *actions.Mkdir) error {
	path, err := cfs.RootPath(root, filepath.Join("/", m.Path))
	if err != nil {
		return err
	}
	owner, err := ownerOf(root, m.Owner)
	if err != nil {
		return err
	}
	mode := os.FileMode(m.Mode) & 0o777
	if m.Parents {
		_, err := fscopy.MkdirAll(path, mode, chowner(owner), timeOf(m.Timestamp))
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return finish(path, owner, m.Timestamp)
}

func mkfile(root string, m *actions.Mkfile) error {
	path, err := cfs.RootPath(root, filepath.Join("/", m.Path))
	if err != nil {
		return err
	}
	owner, err := ownerOf(root, m.Owner)
	if err != nil {
		return err
	}
	// A new file takes the place of what is there, so nothing is written through a device or a link.
	draft, err := os.CreateTemp(filepath.Dir(path), ".podfiles-")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(m.Data)
	if closed := draft.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(draft.Name(), os.FileMode(m.Mode)&0o777)
	}
	if err == nil {
		err = finish(draft.Name(), owner, m.Timestamp)
	}
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	return err
}

func symlink(root string, s *actions.Symlink) error {
	path, err := cfs.RootPath(root, filepath.Join("/", s.Path))
	if err != nil {
		return err
	}
	owner, err := ownerOf(root, s.Owner)
	if err != nil {
		return err
	}
	if err := os.Symlink(s.Target, path); err != nil {
		return err
	}
	return finish(path, owner, s.Timestamp)
}

func finish(path string, owner *fscopy.User, timestamp int64) error {
	if err := fscopy.Chown(path, nil, chowner(owner)); err != nil {
		return err
	}
	return fscopy.Utimes(path, timeOf(timestamp))
}

func remove(root string, r *actions.Rm) error {
	names := []string{r.Path}
	if r.Wildcard {
		var err error
		if names, err = fscopy.ResolveWildcards(root, clean(r.Path), false); err != nil {
			return err
		}
	}
	for _, name := range names {
		above, err := cfs.RootPath(root, filepath.Dir(filepath.Join("/", name)))
		if err != nil {
			return err
		}
		path := filepath.Join(above, filepath.Base(name))
		if _, err := os.Lstat(path); err != nil && !r.AllowNotFound {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf looks names up in the root that is changed. A name that is not there is root, as in BuildKit.
func ownerOf(root string, asked *actions.Owner) (*fscopy.User, error) {
	if asked == nil {
		return nil, nil
	}
	found := &fscopy.User{}
	if id, err := strconv.Atoi(asked.User); err == nil {
		found.UID, found.GID = id, id
	} else if asked.User != "" {
		users, err := lookUp(root, "/etc/passwd", func(path string) ([]user.User, error) {
			return user.ParsePasswdFileFilter(path, func(one user.User) bool { return one.Name == asked.User })
		})
		if err != nil {
			return nil, err
		}
		if len(users) > 0 {
			found.UID, found.GID = users[0].Uid, users[0].Gid
		}
	}
	if id, err := strconv.Atoi(asked.Group); err == nil {
		found.GID = id
	} else if asked.Group != "" {
		groups, err := lookUp(root, "/etc/group", func(path string) ([]user.Group, error) {
			return user.ParseGroupFileFilter(path, func(one user.Group) bool { return one.Name == asked.Group })
		})
		if err != nil {
			return nil, err
		}
		if len(groups) > 0 {
			found.GID = groups[0].Gid
		}
	}
	return found, nil
}

func lookUp[T any](root, name string, read func(path string) ([]T, error)) ([]T, error) {
	path, err := cfs.RootPath(root, name)
	if err != nil {
		return nil, err
	}
	found, err := read(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

func timeOf(timestamp int64) *time.Time {
	if timestamp == -1 {
		return nil
	}
	t := time.Unix(0, timestamp)
	return &t
}

// clean keeps a slash or "/." at the end, which mean something in a fscopy.
func clean(name string) string {
	cleaned := filepath.Join("/", name)
	switch {
	case cleaned == "/":
		return cleaned
	case strings.HasSuffix(name, "/."):
		return cleaned + "/."
	case strings.HasSuffix(name, "/"):
		return cleaned + "/"
	}
	return cleaned
}
