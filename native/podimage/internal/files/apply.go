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
	"slices"
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
	Sources map[int]string `json:"sources"`
	// Roots are the sources that are roots of sandboxes, and have files of AgentPod.
	Roots   []int            `json:"roots"`
	Actions []actions.Action `json:"actions"`
}

// ownDirectory has files of AgentPod in every root. It is no part of what a Dockerfile copies.
const ownDirectory = ".agentpod"

// ownFiles are written into the root of every sandbox.
var ownFiles = []string{ownDirectory, "etc/hostname", "etc/hosts", "etc/machine-id", "etc/resolv.conf"}

// kernelDirectories are mounts of the sandbox, which nothing can change.
var kernelDirectories = []string{"proc", "sys", "dev"}

// Apply performs the actions on the root.
func Apply(ctx context.Context, root string, work Work) error {
	for _, action := range work.Actions {
		if err := apply(ctx, root, work, action); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, root string, work Work, action actions.Action) error {
	switch {
	case action.Copy != nil:
		path, ok := work.Sources[action.Copy.From]
		if !ok {
			return errors.New("there is no such source")
		}
		source := source{path: path, isRoot: slices.Contains(work.Roots, action.Copy.From)}
		return plain(copyFiles(ctx, root, source, action.Copy), path)
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

// A source is a directory that a copy reads from.
type source struct {
	path string
	// isRoot is whether it is the root of a sandbox, not a build context or the files of a commit.
	isRoot bool
}

func copyFiles(ctx context.Context, root string, from source, c *actions.Copy) error {
	owner, err := ownerOf(root, c.Owner)
	if err != nil {
		return err
	}
	if err := checkRequired(from, c); err != nil {
		return err
	}
	if err := checkDestination(root, c); err != nil {
		return err
	}
	names, err := namesOf(from, c)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := copyName(ctx, root, from, name, c, owner); err != nil {
			return err
		}
	}
	return nil
}

func checkRequired(from source, c *actions.Copy) error {
	for _, needed := range c.Required {
		found, err := fscopy.ResolveWildcards(from.path, clean(needed), c.FollowSymlink)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s: not found", needed)
		}
	}
	return nil
}

// checkDestination finds a missing directory, where it is not to be made.
func checkDestination(root string, c *actions.Copy) error {
	if c.CreateDestPath {
		return nil
	}
	dest, err := cfs.RootPath(root, filepath.Join("/", c.Dest))
	if err != nil {
		return err
	}
	_, err = os.Lstat(filepath.Dir(dest))
	return err
}

// namesOf resolves the wildcards of a copy. Without files it is an error, unless the copy allows that.
func namesOf(from source, c *actions.Copy) ([]string, error) {
	if !c.Wildcard {
		return []string{clean(c.Src)}, nil
	}
	names, err := fscopy.ResolveWildcards(from.path, clean(c.Src), c.FollowSymlink)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	mayBeEmpty := err == nil && c.EmptyWildcard && strings.ContainsAny(c.Src, "*?[")
	if len(names) == 0 && !mayBeEmpty {
		return nil, fmt.Errorf("%s: not found", c.Src)
	}
	return names, nil
}

func copyName(ctx context.Context, root string, from source, name string, c *actions.Copy, owner *fscopy.User) error {
	found, err := cfs.RootPath(from.path, name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(found); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: not found", c.Src)
	}
	if from.isRoot && filepath.Join("/", name) == "/"+ownDirectory {
		return nil
	}
	if c.Unpack {
		isDone, err := unpack(root, from.path, name, clean(c.Dest), owner, timeOf(c.Timestamp))
		if err != nil || isDone {
			return err
		}
	}
	return fscopy.Copy(ctx, from.path, name, root, clean(c.Dest), options(c, excluded(from, name, c), owner))
}

// excluded is what a copy of the whole source leaves out.
func excluded(from source, name string, c *actions.Copy) []string {
	patterns := slices.Clone(c.Exclude)
	if filepath.Clean(name) != "/" {
		return patterns
	}
	if from.isRoot {
		patterns = append(patterns, ownFiles...)
	}
	if filepath.Join("/", c.Dest) == "/" {
		patterns = append(patterns, kernelDirectories...)
	}
	return patterns
}

func options(c *actions.Copy, excluded []string, owner *fscopy.User) fscopy.Opt {
	return func(info *fscopy.CopyInfo) {
		info.IncludePatterns = c.Include
		info.ExcludePatterns = excluded
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
