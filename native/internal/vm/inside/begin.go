package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

const (
	disksDir = "/run/disks"
	rootDir  = "/run/root"
	// diskWait is how long the kernel may take to find a disk.
	diskWait = 30 * time.Second
	diskPoll = time.Millisecond
	// resizeFS lets an ext4 use more of its disk.
	resizeFS = 0x40086610
)

// begin assembles the root of the sandbox from its disks, and moves podd into it.
func (m *machine) begin(identity order.Identity, sandbox order.Sandbox) (map[string]cgroup.Level, error) {
	if m.upper != nil {
		return nil, errors.New("the machine has a sandbox already")
	}
	if err := m.mountRoot(identity.Hostname, sandbox); err != nil {
		return nil, err
	}
	defer mount.Detach(rootDir)
	sandbox.Limits.Delegated = m.docker
	levels := m.cgroups.Limit(runName, sandbox.Limits)
	if sandbox.OpenFiles > 0 {
		if files, _ := boot.FileLimit(sandbox.OpenFiles); files > 0 {
			if err := boot.LowerLimit(m.run.Pid, unix.RLIMIT_NOFILE, files); err != nil {
				return nil, err
			}
		}
	}
	swap := mount.Swap{Pid: m.run.Pid, Root: rootDir, Hostname: identity.Hostname, Keep: sandbox.Keep, Sizes: sandbox.Sizes}
	if err := swap.Do(); err != nil || !sandbox.PreparesRoot {
		return levels, err
	}
	return levels, m.run.TellRoot()
}

func (m *machine) mountRoot(hostname string, sandbox order.Sandbox) error {
	if err := os.MkdirAll(rootDir, 0o755); err != nil {
		return err
	}
	var lowers []string
	top := ""
	for _, lower := range sandbox.Lowers {
		dir, err := mountDisk(lower.Disk, true)
		if err != nil {
			return err
		}
		if lower.IsSnapshot {
			dir = filepath.Join(dir, rootfs.UpperOfRoot)
			if top == "" {
				top = dir
			}
		}
		lowers = append(lowers, dir)
	}
	dir, err := mountDisk(sandbox.Upper, false)
	if err != nil {
		return err
	}
	if m.upper, err = os.Open(dir); err != nil {
		return err
	}
	if err := growTo(m.upper, sandbox.UpperBytes); err != nil {
		return fmt.Errorf("grow the disk: %w", err)
	}
	upper, work := filepath.Join(dir, rootfs.UpperOfRoot), filepath.Join(dir, rootfs.WorkOfRoot)
	if err := makeUpper(upper, work, top); err != nil {
		return err
	}
	if err := (mount.Overlay{Lower: lowers, Upper: upper, Work: work}).Mount(rootDir); err != nil {
		return err
	}
	root := rootfs.MachineRoot{Path: rootDir, Hostname: hostname, Files: rootfs.Files(sandbox.Files)}
	if err := root.Prepare(); err != nil {
		return err
	}
	if err := m.stage.Bind(m.podd, rootDir+"/.agentpod/podd"); err != nil {
		return err
	}
	var tmpfs []rootfs.Mount
	for _, one := range sandbox.Tmpfs {
		tmpfs = append(tmpfs, rootfs.Mount{Path: one.Path, IsTmpfs: true, SizeBytes: one.SizeBytes, TakesOwner: one.TakesOwner})
	}
	if err := root.MountTmpfs(tmpfs); err != nil || !m.docker {
		return err
	}
	return mountEngineData(root, filepath.Join(dir, engineData))
}

// engineData is the directory of a sandbox's disk that has the files of its container engine. The engine
// stacks overlays, which cannot be on the overlay that is the root.
const engineData = "docker"

func mountEngineData(root rootfs.MachineRoot, source string) error {
	if err := os.Mkdir(source, 0o710); err != nil && !os.IsExist(err) {
		return err
	}
	if err := root.Bind(source, "/var/lib/docker"); err != nil {
		return fmt.Errorf("mount the engine's directory: %w", err)
	}
	return nil
}

// makeUpper makes the directories that an overlay needs. A new upper has the owner and mode of the topmost
// snapshot's, because it determines those of the root.
func makeUpper(upper, work, top string) error {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(upper); err == nil {
		return nil
	}
	if err := os.MkdirAll(upper, 0o755); err != nil {
		return err
	}
	if top == "" {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(top, &stat); err != nil {
		return err
	}
	if err := os.Chown(upper, int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	return unix.Chmod(upper, stat.Mode&0o7777)
}

// mountDisk mounts a disk and returns where. Snapshots were frozen when they were taken, so nothing has to
// be read from their journals.
func mountDisk(number int, readOnly bool) (string, error) {
	device, err := findDisk(number)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(disksDir, strconv.Itoa(number))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	flags, options := uintptr(unix.MS_NODEV|unix.MS_NOATIME), "discard"
	if readOnly {
		flags, options = unix.MS_NODEV|unix.MS_RDONLY, "noload"
	}
	if err := unix.Mount(device, dir, "ext4", flags, options); err != nil {
		return "", fmt.Errorf("mount disk %d: %w", number, err)
	}
	return dir, nil
}

// findDisk waits until the kernel has found a disk. Its number is that of its target on the controller.
func findDisk(number int) (string, error) {
	for end := time.Now().Add(diskWait); ; time.Sleep(diskPoll) {
		entries, _ := os.ReadDir("/sys/block")
		for _, entry := range entries {
			address, err := os.Readlink(filepath.Join("/sys/block", entry.Name(), "device"))
			if err != nil {
				continue
			}
			// The address is HOST:CHANNEL:TARGET:UNIT.
			if parts := strings.Split(filepath.Base(address), ":"); len(parts) == 4 && parts[2] == strconv.Itoa(number) {
				device := "/dev/" + entry.Name()
				if _, err := os.Stat(device); err == nil {
					return device, nil
				}
			}
		}
		if device := virtioDisk(number); device != "" {
			return device, nil
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("disk %d did not appear", number)
		}
	}
}

// growTo makes a file system as large as its disk, if it is smaller.
func growTo(dir *os.File, bytes int64) error {
	var found unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &found); err != nil {
		return err
	}
	blocks := uint64(bytes / found.Bsize)
	// The file system counts fewer blocks than it has: some hold its own tables.
	if bytes == 0 || found.Blocks+blocks/16 >= blocks {
		return nil
	}
	return ioctl(dir, resizeFS, unsafe.Pointer(&blocks))
}
