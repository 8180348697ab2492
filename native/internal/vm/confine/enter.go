// Package confine starts programs that run virtual machines without any rights.
package confine

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is podhost's subcommand that becomes the program: it makes a root with nothing but the program and
// its libraries, gives up every right, and executes the program.
const Command = "vm-enter"

// Namespaces are those that the process is started in.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

const (
	kvmDevice    = "/dev/kvm"
	randomDevice = "/dev/urandom"
	// openFiles is enough for the disks of a machine.
	openFiles = 1024
)

// libraries are the parts of the host that every program sees, read-only.
var libraries = []string{"/usr/lib", "/usr/lib64", "/etc/ld.so.cache"}

// A Root is what a program sees and who it is.
type Root struct {
	Program string
	// Scratch is an empty directory where the root is assembled.
	Scratch string
	UID     int
	// KVM and Random show these devices.
	KVM, Random bool
	// Shown are more files and directories of the host, read-only. What the host does not have is left out.
	Shown []string
	// Mounts are detached mounts, by the path at which the program sees them.
	Mounts map[string]int
}

// Arguments returns those of the command; the program's own follow.
func (r Root) Arguments() []string {
	args := []string{Command, "--program", r.Program, "--scratch", r.Scratch, "--uid", strconv.Itoa(r.UID)}
	if r.KVM {
		args = append(args, "--kvm")
	}
	if r.Random {
		args = append(args, "--random")
	}
	for _, path := range r.Shown {
		args = append(args, "--show", path)
	}
	for path, fd := range r.Mounts {
		args = append(args, "--mount", fmt.Sprintf("%d:%s", fd, path))
	}
	return append(args, "--")
}

func parse(args []string) (root Root, rest []string, err error) {
	root.Mounts = map[string]int{}
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&root.Program, "program", "", "")
	flags.StringVar(&root.Scratch, "scratch", "", "")
	flags.IntVar(&root.UID, "uid", 0, "")
	flags.BoolVar(&root.KVM, "kvm", false, "")
	flags.BoolVar(&root.Random, "random", false, "")
	flags.Func("show", "", func(path string) error {
		root.Shown = append(root.Shown, path)
		return nil
	})
	flags.Func("mount", "", func(text string) error {
		fd, path, _ := strings.Cut(text, ":")
		number, err := strconv.Atoi(fd)
		if err != nil || !filepath.IsAbs(path) {
			return errors.New("a mount is FD:PATH")
		}
		root.Mounts[path] = number
		return nil
	})
	err = flags.Parse(args)
	return root, flags.Args(), err
}

// Enter is the process. It returns only if it fails.
func Enter(args []string) error {
	runtime.LockOSThread()
	root, rest, err := parse(args)
	if err != nil {
		return err
	}
	name := filepath.Base(root.Program)
	if root.UID <= 0 {
		return fmt.Errorf("%s must not run as root", name)
	}
	if err := root.enter(); err != nil {
		return fmt.Errorf("the root of %s: %w", name, err)
	}
	if err := dropRights(root.UID); err != nil {
		return fmt.Errorf("drop rights: %w", err)
	}
	return unix.Exec(root.Program, append([]string{name}, rest...), []string{"PATH=/usr/bin", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"})
}

// enter assembles the root in memory and enters it.
func (r Root) enter() error {
	root := r.Scratch
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	attr := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	for _, path := range append(append([]string{r.Program}, libraries...), r.Shown...) {
		if err := show(root, path, attr); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := r.makeDevices(filepath.Join(root, "dev")); err != nil {
		return err
	}
	for path, fd := range r.Mounts {
		if err := attach(fd, filepath.Join(root, path)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for link, to := range map[string]string{"lib": "usr/lib", "lib64": "usr/lib64"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	proc := filepath.Join(root, "proc")
	if err := os.Mkdir(proc, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "mode=755,size=1m"); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}

// makeDevices makes the devices that the program uses.
func (r Root) makeDevices(dev string) error {
	if !r.KVM && !r.Random {
		return nil
	}
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	if r.KVM {
		if err := makeDevice(dev, kvmDevice, 0o600, r.UID); err != nil {
			return err
		}
	}
	if r.Random {
		return makeDevice(dev, randomDevice, 0o400, r.UID)
	}
	return nil
}

// makeDevice makes a node that belongs to the program's user. Its owner on the host differs between
// distributions.
func makeDevice(dev, device string, mode uint32, uid int) error {
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	node := filepath.Join(dev, filepath.Base(device))
	err := unix.Mknod(node, unix.S_IFCHR|mode, int(stat.Rdev))
	if errors.Is(err, unix.EPERM) {
		// In a container, podhost may not make devices. The program can use that of the host if every user can.
		return show(filepath.Dir(dev), device, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	if err != nil {
		return err
	}
	return os.Chown(node, uid, uid)
}

// attach puts a detached mount at a path.
func attach(fd int, target string) error {
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if err := makePoint(target, stat.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// makePoint makes an empty directory or file to mount on.
func makePoint(target string, isDir bool) error {
	if isDir {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o644)
}

// show binds a file or directory of the host at the same path. What the host does not have is left out.
func show(root, path string, attr uint64) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	target := filepath.Join(root, path)
	if err := makePoint(target, info.IsDir()); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// dropRights changes the calling thread, which executes the program.
func dropRights(uid int) error {
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: openFiles} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	for last := uintptr(0); ; last++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, last, 0, 0, 0); err != nil {
			if err == unix.EINVAL && last > 0 {
				break
			}
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := syscall.Setgroups([]int{}); err != nil {
		return err
	}
	if err := syscall.Setresgid(uid, uid, uid); err != nil {
		return err
	}
	return syscall.Setresuid(uid, uid, uid)
}
