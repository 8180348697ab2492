// Package gvisor runs sandboxes under runsc, gVisor's OCI runtime. A process of podhost's supervises each of
// them.
package gvisor

import (
	"strconv"
	"strings"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/lateroot"
	"agentpod/native/internal/mount"
)

// BootIDFile shows the boot id. The blank root has an empty file there, on which gVisor mounts the sandbox's
// own.
const BootIDFile = "/proc/sys/kernel/random/boot_id"

// Spec has the parts that differ between sandboxes.
type Spec struct {
	Hostname string
	// Root is the blank root; Slot is the directory on which podhost mounts the sandbox's own.
	Root, Slot string
	// BootID is the file shown as the kernel's boot id.
	BootID   string
	PoddArgs []string
	Files    uint64
	IDs      mount.Range
	// Docker leaves root inside every capability, and control groups that it may write.
	Docker bool
}

// config is an OCI configuration for runsc. It is not that of a container on the host's kernel: gVisor makes
// the devices, hides the host's kernel files and needs no seccomp filter from us.
type config struct {
	OCIVersion string         `json:"ociVersion"`
	Hostname   string         `json:"hostname"`
	Root       bundle.Root    `json:"root"`
	Process    bundle.Process `json:"process"`
	Mounts     []bundle.Mount `json:"mounts"`
	Linux      linux          `json:"linux"`
}

type linux struct {
	Namespaces    []bundle.Namespace `json:"namespaces"`
	UIDMappings   []mapping          `json:"uidMappings"`
	GIDMappings   []mapping          `json:"gidMappings"`
	ReadonlyPaths []string           `json:"readonlyPaths,omitempty"`
}

type mapping struct {
	ContainerID int `json:"containerID"`
	HostID      int `json:"hostID"`
	Size        int `json:"size"`
}

// capabilities are those of a container at its start, and two for gVisor's network stack. All of them are
// inside gVisor: none reaches the host's kernel.
var capabilities = append([]string{"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_RESOURCE"}, bundle.Granted...)

// everyCapability is for a container engine inside. gVisor has no other ones.
var everyCapability = strings.Fields(`
	CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID CAP_SETPCAP
	CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER
	CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE
	CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP
	CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ`)

func newConfig(s Spec) config {
	capabilities, readonly, args := capabilities, []string{"/proc/sys"}, s.PoddArgs
	if s.Docker {
		capabilities, readonly, args = everyCapability, nil, append([]string{"--docker"}, args...)
	}
	ids := []mapping{{ContainerID: 0, HostID: s.IDs.Base, Size: s.IDs.Count}}
	var namespaces []bundle.Namespace
	for _, kind := range []string{"user", "network", "pid", "mount", "uts", "ipc"} {
		namespaces = append(namespaces, bundle.Namespace{Type: kind})
	}
	return config{
		OCIVersion: "1.0.2",
		Hostname:   s.Hostname,
		Root:       bundle.Root{Path: s.Root},
		Process: bundle.Process{
			Args:         append([]string{bundle.PoddPath}, args...),
			Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Cwd:          "/",
			Capabilities: bundle.Capabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities},
			Rlimits: []bundle.Rlimit{
				{Type: "RLIMIT_CORE"},
				{Type: "RLIMIT_NOFILE", Soft: s.Files, Hard: s.Files},
			},
		},
		Mounts: mounts(s),
		Linux:  linux{Namespaces: namespaces, UIDMappings: ids, GIDMappings: ids, ReadonlyPaths: readonly},
	}
}

func mounts(s Spec) []bundle.Mount {
	tmpfs := func(destination, mode string, bytes int64) bundle.Mount {
		options := []string{"nosuid", "nodev", "mode=" + mode}
		if bytes > 0 {
			options = append(options, "size="+strconv.FormatInt(bytes, 10))
		}
		return bundle.Mount{Destination: destination, Type: "tmpfs", Source: "tmpfs", Options: options}
	}
	all := []bundle.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
		tmpfs("/dev/shm", "1777", 0),
		tmpfs("/tmp", "1777", 0),
		tmpfs("/run", "755", 64<<20),
		{Destination: BootIDFile, Type: "bind", Source: s.BootID, Options: []string{"bind", "ro"}},
		// A root that podhost mounts on a directory of it later appears here too.
		{Destination: lateroot.Slot, Type: "bind", Source: s.Slot, Options: []string{"rbind", "rslave", "rw"}},
	}
	if s.Docker {
		all = append(all, bundle.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "rw"}})
	}
	return all
}
