package rootfs

import (
	"errors"
	"os"
	"strings"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// mountPoints are where the runtime and podhost mount or write.
var mountPoints = []string{"dev", "proc", "sys", "run", "tmp", "etc", ".agentpod"}

// prepareRoot makes the directories and files that every sandbox needs, in a root that podhost does not
// control: one made of layers, or of files that a sandbox has changed (its own, another one's, or those of a
// snapshot below it).
//
// SECURITY: FS-13, FS-14. The runtime mounts on these paths with the host's authority. A symlink from a layer
// or a sandbox would redirect that, so anything but a plain directory is refused. The merged tree is checked,
// because any layer may add the link.
func (plan Plan) prepareRoot(path string) error {
	root, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, name := range mountPoints {
		if err := plan.plainDir(root, name); err != nil {
			return unsafeAs(plan, err)
		}
	}
	if err := plan.keepFile(root, ".agentpod", "podd", ""); err != nil {
		return unsafeAs(plan, err)
	}
	if err := plan.keepFile(root, "etc", resolvConf, resolver); err != nil && !isOwnDirectory(plan.Files, err) {
		return unsafeAs(plan, err)
	}
	if plan.Files == OwnFiles {
		return nil
	}
	for name, text := range identity(plan.Hostname) {
		if err := plan.replaceFile(root, "etc", name, text); err != nil {
			return unsafeAs(plan, err)
		}
	}
	return nil
}

// isOwnDirectory reports whether the sandbox has replaced, by a directory, a file that podhost does not
// depend on. It starts without that file.
func isOwnDirectory(files Files, err error) bool {
	return files == OwnFiles && errors.As(err, &unsafeTree{})
}

// unsafeTree is a path in a merged root that is not what a mount or a file of podhost needs there.
type unsafeTree struct{ path string }

func (e unsafeTree) Error() string { return "/" + e.path + " is not what it has to be" }

// unsafeAs turns an unsafe tree into an error that names its cause.
func unsafeAs(plan Plan, err error) error {
	var found unsafeTree
	if !errors.As(err, &found) {
		return err
	}
	if plan.Files == NewFiles && len(plan.Over) > 0 {
		return hostproto.Errorf(hostproto.InvalidArgument, "snapshot.unsafe", "/%s in the snapshots, or in the layers below them, is not a plain directory or file", found.path).
			WithHint("make the snapshots again so that /dev, /proc, /sys, /run, /tmp and /etc stay directories")
	}
	if plan.Files == NewFiles {
		return hostproto.Errorf(hostproto.InvalidArgument, "layer.unsafe", "/%s in the layers is not a plain directory or file", found.path).
			WithHint("rebuild the image so that /dev, /proc, /sys, /run, /tmp and /etc are directories")
	}
	return hostproto.Errorf(hostproto.DataLoss, "sandbox.unsafe", "/%s in the sandbox's files is not a plain directory or file: a program inside has replaced it", found.path).
		WithHint("restore an earlier snapshot, or create a new sandbox")
}

func (plan Plan) plainDir(root int, name string) error {
	fd, err := plan.openPlain(root, name)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// openPlain opens a directory of a root, and makes it if there is none.
func (plan Plan) openPlain(root int, name string) (int, error) {
	fd, err := safefs.OpenBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		return fd, nil
	}
	if !errors.Is(err, unix.ENOENT) {
		return -1, unsafeTree{name}
	}
	if err := unix.Mkdirat(root, name, 0o755); err != nil {
		return -1, err
	}
	if err := unix.Fchownat(root, name, plan.IDs.Range.Base, plan.IDs.Range.Base, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return safefs.OpenBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// mountPoint opens the directory to mount on. The caller closes it.
func (plan Plan) mountPoint(root int, dir string) (int, error) {
	name := strings.TrimPrefix(dir, "/")
	fd, err := safefs.OpenBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil || !errors.Is(err, unix.ENOENT) {
		if err != nil {
			err = unsafeAs(plan, unsafeTree{name})
		}
		return fd, err
	}
	at, err := safefs.OpenBeneath(root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	for _, part := range strings.Split(name, "/") {
		next, err := plan.openPlain(at, part)
		unix.Close(at)
		if err != nil {
			return -1, unsafeAs(plan, err)
		}
		at = next
	}
	return at, nil
}

// keepFile is replaceFile for a file that is the same in every root: if it is there already, nothing is
// written, because reading is faster.
func (plan Plan) keepFile(root int, dir, name, text string) error {
	fd, err := safefs.OpenBeneath(root, dir+"/"+name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return plan.replaceFile(root, dir, name, text)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	isOurs := int(stat.Uid) == plan.IDs.Range.Base && int(stat.Gid) == plan.IDs.Range.Base
	if isOurs && stat.Mode&^0o200 == unix.S_IFREG|0o444 && stat.Size == int64(len(text)) {
		found := make([]byte, len(text))
		if n, err := unix.Pread(fd, found, 0); err == nil && n == len(text) && string(found) == text {
			return nil
		}
	}
	return plan.replaceFile(root, dir, name, text)
}

// replaceFile writes a file whatever the layers have under that name, even a symlink.
func (plan Plan) replaceFile(root int, dir, name, text string) error {
	at, err := safefs.OpenBeneath(root, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Unlinkat(at, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		if errors.Is(err, unix.EISDIR) {
			return unsafeTree{dir + "/" + name}
		}
		return err
	}
	fd, err := safefs.OpenBeneath(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		return err
	}
	return file.Chown(plan.IDs.Range.Base, plan.IDs.Range.Base)
}
