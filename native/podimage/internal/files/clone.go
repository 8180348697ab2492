package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentpod/podimage/internal/actions"

	cfs "github.com/containerd/continuity/fs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	fscopy "github.com/tonistiigi/fsutil/copy"
)

// checkout has the files of a commit, apart from those that the sandbox has in its root.
const checkout = "/checkout"

// Clone puts the files of a commit into the checkout, through the network that the sandbox has, and prints
// the commit.
func Clone(ctx context.Context, root string, asked actions.Git, out io.Writer) error {
	work, err := os.MkdirTemp(filepath.Join(root, ownDirectory), "clone-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	modules := git.NoRecurseSubmodules
	if asked.Submodules {
		modules = git.DefaultSubmoduleRecursionDepth
	}
	repository, err := git.PlainCloneContext(ctx, work, false, &git.CloneOptions{URL: asked.Remote, NoCheckout: true, Tags: git.AllTags})
	if err != nil {
		return fmt.Errorf("clone %s: %w", asked.Remote, err)
	}
	commit, err := commitOf(repository, asked.Ref)
	if err != nil {
		return fmt.Errorf("%s has no branch, tag or commit %q", asked.Remote, asked.Ref)
	}
	if asked.Checksum != "" && !strings.HasPrefix(commit.String(), asked.Checksum) {
		return fmt.Errorf("%s: %q is the commit %s, but %s was asked for", asked.Remote, asked.Ref, commit, asked.Checksum)
	}
	tree, err := repository.Worktree()
	if err != nil {
		return err
	}
	if err := tree.Checkout(&git.CheckoutOptions{Hash: *commit, Force: true}); err != nil {
		return err
	}
	if modules != git.NoRecurseSubmodules {
		found, err := tree.Submodules()
		if err != nil {
			return err
		}
		for _, module := range found {
			err := module.UpdateContext(ctx, &git.SubmoduleUpdateOptions{Init: true, RecurseSubmodules: modules})
			// A name in .gitmodules that the commit does not have has no files, for git as well.
			if err != nil && !errors.Is(err, index.ErrEntryNotFound) {
				return fmt.Errorf("submodule %q: %w", module.Config().Name, err)
			}
		}
	}
	if !asked.KeepGitDir {
		if err := os.RemoveAll(filepath.Join(work, ".git")); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, commit)
	from, err := cfs.RootPath(work, filepath.Join("/", asked.Subdir))
	if err != nil {
		return err
	}
	return fscopy.Copy(ctx, from, "/", root, checkout, func(info *fscopy.CopyInfo) { info.CopyDirContents = true })
}

// commitOf finds a branch, a tag or a commit, in this order; the default branch if none is named.
func commitOf(repository *git.Repository, ref string) (*plumbing.Hash, error) {
	if ref == "" {
		return repository.ResolveRevision("HEAD")
	}
	for _, name := range []string{"refs/remotes/origin/" + ref, "refs/tags/" + ref, strings.TrimPrefix(ref, "refs/heads/"), ref} {
		if commit, err := repository.ResolveRevision(plumbing.Revision(name)); err == nil {
			return commit, nil
		}
	}
	return nil, plumbing.ErrReferenceNotFound
}
