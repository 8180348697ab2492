package host

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"

	"golang.org/x/sys/unix"
)

// A check is something about this host that was tried, not looked up.
type check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Detail   string `json:"detail"`
	Hint     string `json:"hint"`
}

// probe runs every check. The last one is a whole sandbox.
func (h *Host) probe() []check {
	scratch := filepath.Join(h.home, "tmp")
	checks := []check{
		tried("kernel", true, checkKernel, "Linux 5.12 or newer has the system calls that podhost uses"),
		tried("user-namespaces", true, h.checkUserNamespace, "enable user namespaces: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone"),
		tried("overlay", true, func() (string, error) {
			return "an overlay can be mounted and written in the state directory", mount.ProbeOverlay(scratch, h.config.Rootless)
		}, "put the state directory on a file system that overlayfs accepts as upper: ext4, xfs, btrfs or tmpfs"),
		tried("idmap", false, h.checkIdmap, "without idmapped mounts (root, Linux 5.19, ext4 or xfs or btrfs) the host's tools are read-only in a sandbox"),
		tried("ids", false, h.checkIDs, sharedHint),
		tried("cgroups", false, h.checkCgroups, h.cgroupHint()),
		tried("open-files", false, checkOpenFiles, openFilesHint),
		tried("network", false, h.checkNetwork, "nftables in the kernel (modules nf_tables, nft_chain_nat, nft_redir, nft_ct) takes every connection to the egress; without it only programs that use the proxy get out"),
		tried("seccomp", true, checkSeccomp, "use a kernel with CONFIG_SECCOMP_FILTER"),
		tried("disk", true, h.checkDisk, "free space on the disk that holds the state directory"),
		tried("pool", false, h.checkPool, "as root, install btrfs-progs or put the state directory on btrfs: snapshots then cost milliseconds, and disk limits hold"),
		tried("sandbox", true, h.checkSandbox, "the detail names what failed; without crun: apt-get install crun"),
	}
	return checks
}

func tried(name string, required bool, try func() (string, error), hint string) check {
	detail, err := try()
	if err != nil {
		return check{Name: name, Required: required, Detail: err.Error(), Hint: hint}
	}
	return check{Name: name, OK: true, Required: required, Detail: detail}
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

func (h *Host) checkUserNamespace() (string, error) {
	namespace, err := mount.NewUserNamespace(h.stored, 0)
	if err != nil {
		return "", err
	}
	namespace.Close()
	return fmt.Sprintf("one with ids %d to %d was made and closed to nesting", h.stored.Base, h.stored.Base+h.stored.Count-1), nil
}

// sharedHint says what follows from shared ids, and what to do about it.
const sharedHint = "sandboxes share what the kernel counts by user: epoll watches, pages of pipes, descriptors on their way through sockets; " +
	"where that matters, run the server as root on a file system with idmapped mounts (ext4, xfs or btrfs)"

// checkIDs looks at two ranges as two sandboxes would have them.
func (h *Host) checkIDs() (string, error) {
	if why := h.ids.Shared(); why != "" {
		return "", errors.New(why)
	}
	var bases [2]int
	for i := range bases {
		r, err := h.ids.Take()
		if err != nil {
			return "", err
		}
		defer h.ids.Release(r.Base)
		if r.Shared != "" {
			return "", errors.New(r.Shared)
		}
		bases[i] = r.Base
	}
	return fmt.Sprintf("each sandbox has %d user ids of its own, such as from %d and from %d on", h.stored.Count, bases[0], bases[1]), nil
}

func (h *Host) checkIdmap() (string, error) {
	if h.config.Rootless {
		return "", errors.New("not for an ordinary user")
	}
	return "an overlay was mounted with shifted ids", mount.ProbeShift(filepath.Join(h.home, "tmp"), h.stored)
}

// cgroupHint is for root; an ordinary user finds the command that mends it in the reason.
func (h *Host) cgroupHint() string {
	if h.config.Rootless {
		return ""
	}
	return "mount cgroup v2, or the v1 memory, cpu and pids hierarchies"
}

func (h *Host) checkCgroups() (string, error) {
	id := "probe" + rootfs.RandomHex(4)
	group, err := h.cgroups.Create(id, cgroup.Limits{MemoryBytes: 1 << 26, CPUs: 1, Pids: 16})
	if err != nil {
		return "", err
	}
	group.Close()
	err = h.cgroups.Remove(id)
	for _, name := range []string{"memory", "swap", "cpus", "pids"} {
		if level := group.Levels[name]; level.Level != "enforced" && name != "swap" && err == nil {
			err = fmt.Errorf("%s: %s", name, level.Reason)
		}
	}
	return fmt.Sprintf("%s: limits on memory, cpus and pids can be set", h.cgroups.Version()), err
}

// openFileBytes is the least that an open file takes in any kernel, which charges it to the sandbox's memory.
const openFileBytes = 128

const openFilesHint = "run `sudo sysctl -w fs.file-max=9223372036854775807`, as systemd does at boot: every open file " +
	"counts as memory of its sandbox, so the limits on memory are then the ones that hold"

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

// openFiles says whether sandboxes within their limits can use up the open files of the whole machine.
//
// SECURITY: RS-18. At fs.file-max the kernel refuses to open any more for everyone but root.
func openFiles(most, memory uint64) (string, error) {
	if most < memory/openFileBytes {
		return "", fmt.Errorf("fs.file-max is %d: sandboxes within their limits on memory can open more, and then only root opens a file", most)
	}
	return fmt.Sprintf("fs.file-max is %d: sandboxes reach their limits on memory before it", most), nil
}

// checkNetwork sees a connection that is redirected, in namespaces as a sandbox has them.
func (h *Host) checkNetwork() (string, error) {
	made, err := h.spares.make()
	if err != nil {
		return "", err
	}
	defer h.spares.discard(made)
	return "a connection to an address outside arrived at the door of its sandbox", made.network.Try(made.Namespaces)
}

func checkSeccomp() (string, error) {
	// With a nil program the kernel complains about the address if it has filters, and about the mode if not.
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0); err != unix.EFAULT {
		return "", fmt.Errorf("seccomp filters: %v", err)
	}
	return "the kernel takes filters", nil
}

func (h *Host) checkDisk() (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(h.home, &fs); err != nil {
		return "", err
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free < 1<<30 || (fs.Files > 0 && fs.Ffree < 100_000) {
		return "", fmt.Errorf("%d MiB and %d inodes free", free>>20, fs.Ffree)
	}
	return fmt.Sprintf("%d MiB free", free>>20), nil
}

func (h *Host) checkPool() (string, error) {
	info := h.pool.Info()
	if !info.Available {
		return "", errors.New(info.Reason)
	}
	if info.Kind == pool.Copy {
		return "", fmt.Errorf("snapshots are copies: %s", info.Reason)
	}
	detail := fmt.Sprintf("%s, %d MiB free", info.Kind, info.FreeBytes>>20)
	if !info.Quotas {
		detail += "; " + info.Reason
	}
	return detail, nil
}

// checkSandbox makes a sandbox, speaks to podd in it and removes it.
func (h *Host) checkSandbox() (string, error) {
	id := "probe" + rootfs.RandomHex(4)
	defer h.locks.lock("sandbox " + id)()
	h.layerUse.RLock()
	defer h.layerUse.RUnlock()
	begin := time.Now()
	_, err := h.create(hostproto.CreateSandbox{ID: id, Owner: "probe", Hostname: "probe", Root: hostproto.Root{Kind: "host"},
		DeadlineMs: begin.Add(time.Minute).UnixMilli()})
	if err != nil {
		return "", err
	}
	var status string
	handle, err := h.existing(id)
	if err == nil {
		status, err = askPodd(h.socket(handle))
	}
	took := time.Since(begin)
	if _, undo := h.destroy(id); err == nil {
		err = undo
	}
	return fmt.Sprintf("%s %s; podd answered %q after %d ms", h.runtime.Name, h.runtime.Version, status, took.Milliseconds()), err
}

func askPodd(path string) (string, error) {
	address := path
	if len(path) > maxSocketPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		defer dir.Close()
		address = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	peer, err := net.DialTimeout("unix", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer peer.Close()
	peer.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := peer.Write([]byte("GET /health HTTP/1.1\r\nHost: podd\r\nConnection: close\r\n\r\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(peer).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 ") {
		return "", fmt.Errorf("podd did not answer: %q %v", line, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 ")), nil
}
