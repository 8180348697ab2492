package rootfs

import (
	"agentpod/native/internal/mount"

	"golang.org/x/sys/unix"
)

// A MachineRoot is the root of a sandbox that a virtual machine mounts itself, from disks. The ids of its
// files are those of the machine.
type MachineRoot struct {
	// Path is where it is mounted.
	Path     string
	Hostname string
	Files    Files
}

func (m MachineRoot) plan() Plan {
	return Plan{IDs: IDs{Range: mount.Range{Count: machineIDs}}, Hostname: m.Hostname, Files: m.Files}
}

// machineIDs is how many ids a machine uses.
const machineIDs = 65536

// Prepare makes the directories and files that every sandbox needs.
func (m MachineRoot) Prepare() error { return m.plan().prepareRoot(m.Path) }

// MountTmpfs mounts temporary file systems in the root.
func (m MachineRoot) MountTmpfs(mounts []Mount) error {
	root, err := unix.Open(m.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, one := range mounts {
		point, err := m.plan().volumePoint(root, one.Path)
		if err != nil {
			return err
		}
		err = mountTmpfs(point, m.plan(), one)
		unix.Close(point.fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// Bind mounts a directory of the machine at a path of the root.
func (m MachineRoot) Bind(source, path string) error {
	root, err := unix.Open(m.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	point, err := m.plan().volumePoint(root, path)
	if err != nil {
		return err
	}
	defer unix.Close(point.fd)
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return unix.MoveMount(tree, "", point.fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// UpperOfRoot is the path, on the disk of a sandbox, of the directory that its root has of its own.
const UpperOfRoot = "upper/root"

// WorkOfRoot is the directory beside it that overlay needs.
const WorkOfRoot = "work/root"
