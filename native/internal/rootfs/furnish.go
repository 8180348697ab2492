package rootfs

import (
	"errors"
	"os"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// mountPoints are where the runtime and podhost mount or write.
var mountPoints = []string{"dev", "proc", "sys", "run", "tmp", "etc", ".agentpod"}

// furnish makes what every sandbox needs in a root made of somebody's layers.
//
// SECURITY: FS-13, FS-14. The runtime mounts on these paths with the host's authority. A layer that ships one as a symlink would
// redirect that, so anything but a plain directory is refused. The merged tree is checked, since any layer may add the link.
func (b *Builder) furnish(path, hostname string) error {
	root, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, name := range mountPoints {
		if err := b.plainDir(root, name); err != nil {
			return err
		}
	}
	if err := b.replaceFile(root, ".agentpod", "podd", ""); err != nil {
		return err
	}
	for name, text := range identity(hostname) {
		if err := b.replaceFile(root, "etc", name, text); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) plainDir(root int, name string) error {
	fd, err := safefs.OpenBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, unix.ENOENT) {
		return hostproto.Errorf(hostproto.InvalidArgument, "layer.unsafe", "/%s in the layers is not a plain directory", name).
			WithHint("rebuild the image so that /dev, /proc, /sys, /run, /tmp and /etc are directories")
	}
	if err := unix.Mkdirat(root, name, 0o755); err != nil {
		return err
	}
	return unix.Fchownat(root, name, b.Range.Base, b.Range.Base, unix.AT_SYMLINK_NOFOLLOW)
}

// replaceFile puts a file there whatever the layers have under the name, a symlink included.
func (b *Builder) replaceFile(root int, dir, name, text string) error {
	at, err := safefs.OpenBeneath(root, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Unlinkat(at, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		if errors.Is(err, unix.EISDIR) {
			return hostproto.Errorf(hostproto.InvalidArgument, "layer.unsafe", "/%s/%s in the layers is a directory", dir, name)
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
	return file.Chown(b.Range.Base, b.Range.Base)
}
