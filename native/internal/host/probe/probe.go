// Package probe tries what sandboxes need from this machine.
package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/random"

	"golang.org/x/sys/unix"
)

// Host is the machine, as podhost uses it.
type Host struct {
	Home     string
	Rootless bool
	Stored   mount.Range
	IDs      *ids.Allocator
	Cgroups  cgroup.Manager
	Pool     *pool.Pool
	// Network tries whether connections are redirected, in namespaces like those of a sandbox.
	Network func() error
	// Sandbox creates a sandbox, speaks to it and destroys it.
	Sandbox func() (detail string, err error)
}

// A Check is the result of trying one thing.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Detail   string `json:"detail"`
	Hint     string `json:"hint"`
}

// Run performs every check. The last one creates a sandbox.
func (h Host) Run() []Check {
	scratch := filepath.Join(h.Home, "tmp")
	return []Check{
		tried("kernel", true, checkKernel, "use Linux 5.12 or newer: podhost needs its system calls"),
		tried("user-namespaces", true, h.checkUserNamespace, "enable user namespaces: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone; in a container, make /proc/sys writable: docker run --security-opt systempaths=unconfined"),
		tried("overlay", true, func() (string, error) {
			return "an overlay was mounted and written in the state directory", mount.ProbeOverlay(scratch, h.Rootless)
		}, "put the state directory on a file system that overlayfs accepts as upper: ext4, xfs, btrfs or tmpfs; in a container, on a volume"),
		tried("idmap", false, h.checkIdmap, "idmapped mounts need root, Linux 5.19, and ext4, xfs or btrfs; without them the host's tools are read-only in a sandbox"),
		tried("ids", false, h.checkIDs, sharedHint),
		tried("cgroups", false, h.checkCgroups, h.cgroupHint()),
		tried("open-files", false, checkOpenFiles, openFilesHint),
		tried("network", false, h.checkNetwork, "load the kernel modules nf_tables, nft_chain_nat, nft_redir and nft_ct; without them only programs that use the proxy reach the network"),
		tried("seccomp", true, checkSeccomp, "use a kernel with CONFIG_SECCOMP_FILTER"),
		tried("disk", true, h.checkDisk, "free space on the disk that holds the state directory"),
		tried("pool", false, h.checkPool, "as root, install btrfs-progs or put the state directory on btrfs: snapshots then take milliseconds, and disk limits are enforced"),
		tried("sandbox", true, h.Sandbox, "the detail says what failed; logs/podhost.log in the state directory has more"),
	}
}

func tried(name string, required bool, try func() (string, error), hint string) Check {
	detail, err := try()
	if err != nil {
		return Check{Name: name, Required: required, Detail: err.Error(), Hint: hint}
	}
	return Check{Name: name, OK: true, Required: required, Detail: detail}
}

func checkKernel() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	release := unix.ByteSliceToString(name.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return "", err
	}
	if major < 5 || (major == 5 && minor < 12) {
		return "", fmt.Errorf("Linux %s is too old", release)
	}
	return "Linux " + release, nil
}

func (h Host) checkUserNamespace() (string, error) {
	namespace, err := mount.NewUserNamespace(h.Stored, 0)
	if err != nil {
		return "", err
	}
	namespace.Close()
	return fmt.Sprintf("a user namespace with ids %d to %d was created, without nested ones", h.Stored.Base, h.Stored.Base+h.Stored.Count-1), nil
}

// sharedHint says what shared ids mean, and how to avoid them.
const sharedHint = "sandboxes share the limits that the kernel counts by user: epoll watches, pipe pages, and descriptors in flight; " +
	"to avoid that, run the server as root on a file system with idmapped mounts (ext4, xfs or btrfs)"

// checkIDs takes two ranges, as two sandboxes would.
func (h Host) checkIDs() (string, error) {
	if why := h.IDs.Shared(); why != "" {
		return "", errors.New(why)
	}
	var bases [2]int
	for i := range bases {
		r, err := h.IDs.Take()
		if err != nil {
			return "", err
		}
		defer h.IDs.Release(r.Base)
		if r.Shared != "" {
			return "", errors.New(r.Shared)
		}
		bases[i] = r.Base
	}
	return fmt.Sprintf("each sandbox has its own %d user ids, for example from %d or from %d", h.Stored.Count, bases[0], bases[1]), nil
}

func (h Host) checkIdmap() (string, error) {
	if h.Rootless {
		return "", errors.New("not available to an ordinary user")
	}
	return "an overlay was mounted with shifted ids", mount.ProbeShift(filepath.Join(h.Home, "tmp"), h.Stored)
}

// cgroupHint is for root. For an ordinary user the reason contains the command that fixes it.
func (h Host) cgroupHint() string {
	if h.Rootless {
		return ""
	}
	return "mount cgroup v2, or the v1 memory, cpu and pids hierarchies"
}

func (h Host) checkCgroups() (string, error) {
	id := "probe" + random.Hex(4)
	group, err := h.Cgroups.Create(id, cgroup.Limits{MemoryBytes: 1 << 26, CPUs: 1, Pids: 16})
	if err != nil {
		return "", err
	}
	group.Close()
	err = h.Cgroups.Remove(id)
	for _, name := range []string{"memory", "swap", "cpus", "pids"} {
		if level := group.Levels[name]; level.Level != "enforced" && name != "swap" && err == nil {
			err = fmt.Errorf("%s: %s", name, level.Reason)
		}
	}
	return fmt.Sprintf("%s: memory, CPU and process limits can be set", h.Cgroups.Version()), err
}

// openFileBytes is the least memory that an open file takes in any kernel. It is charged to the sandbox.
const openFileBytes = 128

const openFilesHint = "run `sudo sysctl -w fs.file-max=9223372036854775807`, as systemd does at boot: every open file " +
	"counts as memory of its sandbox, so the memory limits then apply first"

func checkOpenFiles() (string, error) {
	data, err := os.ReadFile("/proc/sys/fs/file-max")
	if err != nil {
		return "", err
	}
	most, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return "", err
	}
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return "", err
	}
	return openFiles(most, uint64(machine.Totalram)*uint64(machine.Unit))
}

// openFiles reports whether sandboxes can use up the open files of the whole machine within their memory
// limits.
//
// SECURITY: RS-18. At fs.file-max the kernel opens files for root only.
func openFiles(most, memory uint64) (string, error) {
	if most < memory/openFileBytes {
		return "", fmt.Errorf("fs.file-max is %d: sandboxes can open more within their memory limits, and then only root can open files", most)
	}
	return fmt.Sprintf("fs.file-max is %d: sandboxes reach their memory limits first", most), nil
}

func (h Host) checkNetwork() (string, error) {
	return "a connection to an outside address was redirected to podd", h.Network()
}

func checkSeccomp() (string, error) {
	// With a nil program the kernel reports a bad address if it supports filters, and a bad mode if not.
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0); err != unix.EFAULT {
		return "", fmt.Errorf("seccomp filters: %v", err)
	}
	return "the kernel supports seccomp filters", nil
}

func (h Host) checkDisk() (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(h.Home, &fs); err != nil {
		return "", err
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free < 1<<30 || (fs.Files > 0 && fs.Ffree < 100_000) {
		return "", fmt.Errorf("%d MiB and %d inodes free", free>>20, fs.Ffree)
	}
	return fmt.Sprintf("%d MiB free", free>>20), nil
}

func (h Host) checkPool() (string, error) {
	info := h.Pool.Info()
	if !info.Available {
		return "", errors.New(info.Reason)
	}
	if info.Kind == pool.Copy {
		return "", fmt.Errorf("snapshots are full copies: %s", info.Reason)
	}
	detail := fmt.Sprintf("%s, %d MiB free", info.Kind, info.FreeBytes>>20)
	if !info.Quotas {
		detail += "; " + info.Reason
	}
	return detail, nil
}
