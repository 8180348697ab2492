package rootfs

import (
	"path/filepath"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// Renumber gives the files of some snapshots of a mounted root new inode numbers, by copying them to the
// sandbox's own files, where they share their blocks. Each subvolume of the pool numbers its files from the
// same start, so files of snapshots that were not made over one another may have one number. gVisor takes
// such files for one: programs would read the wrong one. which are indices of plan.Over.
func (b *Builder) Renumber(path string, plan Plan, which []int, check safefs.SpaceCheck) error {
	if len(which) == 0 {
		return nil
	}
	covered := []string{"/"}
	if plan.Root.Kind == "host" {
		covered = append(covered, b.View.Dirs...)
	}
	for _, dir := range covered {
		if err := plan.renumber(filepath.Join(path, dir), dir, which, check); err != nil {
			return err
		}
	}
	return nil
}

func (plan Plan) renumber(merged, covered string, which []int, check safefs.SpaceCheck) error {
	name := upperName(covered)
	var renewer *safefs.Renewer
	for _, i := range which {
		layer := filepath.Join(plan.Over[i], name)
		above := []string{filepath.Join(plan.Data, "upper", name)}
		for _, other := range plan.Over[i+1:] {
			above = append(above, filepath.Join(other, name))
		}
		err := eachFile(layer, ".", func(parent, name string) error {
			if isCovered(above, parent, name) {
				return nil
			}
			if renewer == nil {
				made, err := safefs.NewRenewer(merged, check)
				if err != nil {
					return err
				}
				renewer = made
			}
			return renewer.Renew(parent, name)
		})
		if renewer != nil {
			renewer.Forget()
		}
		if err != nil {
			if renewer != nil {
				renewer.Close()
			}
			return err
		}
	}
	if renewer != nil {
		return renewer.Close()
	}
	return nil
}

// eachFile calls visit for everything below a directory of an upper that is neither a directory nor a
// whiteout.
func eachFile(root, parent string, visit func(parent, name string) error) error {
	fd, err := unix.Open(filepath.Join(root, parent), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && parent == "." {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := safefs.Names(fd)
	kinds := make([]unix.Stat_t, len(names))
	for n := 0; n < len(names) && err == nil; n++ {
		err = unix.Fstatat(fd, names[n], &kinds[n], unix.AT_SYMLINK_NOFOLLOW)
	}
	unix.Close(fd)
	if err != nil {
		return err
	}
	for n, name := range names {
		switch kinds[n].Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = eachFile(root, parent+"/"+name, visit)
		case unix.S_IFCHR:
			// A whiteout is the only device there.
		default:
			err = visit(parent, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isCovered reports whether one of the uppers above has something at a path, or hides a directory above it.
func isCovered(above []string, parent, name string) bool {
	for _, upper := range above {
		if hides(upper, parent, name) {
			return true
		}
	}
	return false
}

func hides(upper, parent, name string) bool {
	var stat unix.Stat_t
	for dir := parent; dir != "."; dir = filepath.Dir(dir) {
		path := filepath.Join(upper, dir)
		if unix.Lstat(path, &stat) != nil {
			continue
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR || isOpaque(path) {
			return true
		}
	}
	return unix.Lstat(filepath.Join(upper, parent, name), &stat) == nil
}

func isOpaque(dir string) bool {
	value := make([]byte, 1)
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		if n, err := unix.Lgetxattr(dir, name, value); err == nil && n == 1 && value[0] == 'y' {
			return true
		}
	}
	return false
}
