// Package inside is vminit, the first process of a virtual machine. It makes the machine ready, runs podd in
// namespaces of its own, and does what the supervisor outside asks for.
package inside

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of the initial RAM disk.
const (
	// InitPath is vminit, PoddPath podd.
	InitPath = "/init"
	PoddPath = "/podd"
	// ModulesDir has the kernel's modules; ModuleList names them in the order in which they are loaded.
	ModulesDir = "/modules"
	ModuleList = "/modules/list"
	// DockerMark is there in a machine for sandboxes in which a container engine may run.
	DockerMark = "/docker"
)

const newRoot = "/root"

// points are the directories that vminit needs in its root. /mnt becomes the stage of package mount.
var points = []string{"/proc", "/sys", "/dev", "/mnt", "/run", "/tmp"}

// prepare mounts the kernel's file systems, loads modules, and leaves the initial RAM disk for a temporary
// file system: the kernel does not let a process change its root while that is the RAM disk. It returns podd,
// and whether a container engine may run.
func prepare() (podd []byte, docker bool, err error) {
	for _, dir := range append([]string{newRoot}, points...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, false, err
		}
	}
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", newRoot}} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return nil, false, fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	expediteRCU()
	if err := loadModules(); err != nil {
		return nil, false, err
	}
	if podd, err = os.ReadFile(PoddPath); err != nil {
		return nil, false, err
	}
	_, absent := os.Stat(DockerMark)
	docker = absent == nil
	if err := leaveRAMDisk(); err != nil {
		return nil, false, err
	}
	if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, false, fmt.Errorf("mount the control groups: %w", err)
	}
	return podd, docker, nil
}

// expediteRCU lets the kernel end grace periods at once instead of at its next ticks. To freeze a file system
// it waits for several of them, while the sandbox stands still. There are few processors to interrupt.
func expediteRCU() {
	if err := os.WriteFile("/sys/kernel/rcu_expedited", []byte("1"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "vminit:", err)
	}
}

// loadModules loads what the kernel does not have built in.
func loadModules() error {
	list, err := os.Open(ModuleList)
	if err != nil {
		return err
	}
	defer list.Close()
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if name := strings.TrimSpace(lines.Text()); name != "" {
			if err := loadModule(filepath.Join(ModulesDir, name)); err != nil {
				return fmt.Errorf("load %s: %w", name, err)
			}
		}
	}
	return lines.Err()
}

func loadModule(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	err = unix.FinitModule(int(file.Fd()), "", 0)
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// leaveRAMDisk frees the files of the RAM disk and makes the temporary file system the root.
func leaveRAMDisk() error {
	for _, dir := range points {
		if err := os.MkdirAll(newRoot+dir, 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	os.RemoveAll(ModulesDir)
	os.Remove(PoddPath)
	os.Remove(InitPath)
	os.Remove(DockerMark)
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}
