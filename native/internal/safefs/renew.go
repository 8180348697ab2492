package safefs

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Renewer replaces files of one tree by copies of themselves, which have new inode numbers.
type Renewer struct {
	copier
	path string
}

// renewing is the directory in which a copy is made before it takes its place.
const renewing = ".agentpod-renewing"

// NewRenewer begins to replace files below a directory. The caller closes it.
func NewRenewer(dir string, check SpaceCheck) (*Renewer, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	r := &Renewer{copier: copier{root: root, buffer: make([]byte, 256<<10), space: SpaceMeter{Check: check}}, path: dir}
	r.Forget()
	err = unix.Mkdirat(root, renewing, 0o700)
	if err == nil {
		r.to, err = openDir(root, renewing)
	}
	if err != nil {
		unix.Close(root)
		return nil, err
	}
	return r, nil
}

// Forget forgets which files are names of the same file: files that follow are of another tree.
func (r *Renewer) Forget() { r.links = map[inode]string{} }

// Renew replaces the file name in the directory at parent, both below the tree. No link is followed.
func (r *Renewer) Renew(parent, name string) error {
	var err error
	if r.from, err = OpenBeneath(r.root, parent, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return err
	}
	defer unix.Close(r.from)
	if err := r.entry(name, parent+"/"+name); err != nil {
		return err
	}
	return unix.Renameat(r.to, name, r.from, name)
}

// Close ends it.
func (r *Renewer) Close() error {
	unix.Close(r.to)
	err := unix.Unlinkat(r.root, renewing, unix.AT_REMOVEDIR)
	unix.Close(r.root)
	return err
}
