// Package bundle describes the container of a sandbox as an OCI configuration. podhost writes it, and podd
// applies it to itself when it starts (package containerinit).
package bundle

import (
	"strconv"
	"strings"
)

// Spec has the parts that differ between sandboxes.
type Spec struct {
	Hostname string
	// Root is the mounted root file system.
	Root string
	// BootID is the file shown as the kernel's boot id.
	BootID   string
	PoddArgs []string
	Files    uint64
	// Docker leaves root inside every capability, and control groups that it may write. Only where the kernel
	// is the sandbox's own.
	Docker bool
}

// terminals is how many pseudo-terminals a sandbox may have. The kernel has 4096 for the whole machine
// (kernel.pty.max).
//
// SECURITY: RS-15.
const terminals = 128

// ContainerFlag is podd's flag for the descriptor of its configuration.
const ContainerFlag = "container-fd"

// DockerFlag is podd's flag for a sandbox in which a container engine may run.
const DockerFlag = "--docker"

// PoddPath is the path of podd inside every sandbox.
const PoddPath = "/.agentpod/podd"

// Granted are the capabilities of the container. podd needs them to install its seccomp filter and to set up
// payloads, and drops the rest before it serves. A payload gets none of them.
var Granted = []string{
	"CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER",
	"CAP_FSETID", "CAP_SETFCAP", "CAP_SYS_CHROOT", "CAP_NET_BIND_SERVICE",
}

// Env is podd's environment. The host's may contain secrets (case LK-01). GOMAXPROCS saves Go a search for
// limits, and threads. Payloads have an environment of their own.
var Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=1"}

// everyCapability is in the order of their numbers.
var everyCapability = strings.Fields(`
	CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID CAP_SETPCAP
	CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER
	CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE
	CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP
	CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF
	CAP_CHECKPOINT_RESTORE`)

// CapabilityNumbers are the numbers of the capabilities that a configuration may grant.
var CapabilityNumbers = func() map[string]int {
	numbers := map[string]int{}
	for number, name := range everyCapability {
		numbers[name] = number
	}
	return numbers
}()

// readonlyPaths is short, because podd covers everything else of /proc and /sys that a sandbox must not see.
var readonlyPaths = []string{"/proc/sys"}

// Namespaces are the kinds of namespaces that a sandbox has of its own. They are made when podhost
// starts podd, the last two by podd itself.
var Namespaces = []string{"user", "network", "pid", "mount", "uts", "ipc", "cgroup"}

// DockerNamespaces are those of a sandbox in which a container engine may run. Without a user namespace, root
// inside is root of the kernel.
var DockerNamespaces = Namespaces[1:]

// Config is the part of an OCI configuration that a sandbox uses. podd refuses any other field.
// It has no seccomp section, because podd installs the filter itself, also in containers that podhost did not
// make. It has no resources, because podhost writes the cgroups.
type Config struct {
	OCIVersion string  `json:"ociVersion"`
	Hostname   string  `json:"hostname"`
	Root       Root    `json:"root"`
	Process    Process `json:"process"`
	Mounts     []Mount `json:"mounts"`
	Linux      Linux   `json:"linux"`
}

// Root is the root file system.
type Root struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

// Process is the first process.
type Process struct {
	Terminal        bool         `json:"terminal"`
	User            User         `json:"user"`
	Args            []string     `json:"args"`
	Env             []string     `json:"env"`
	Cwd             string       `json:"cwd"`
	NoNewPrivileges bool         `json:"noNewPrivileges"`
	Capabilities    Capabilities `json:"capabilities"`
	Rlimits         []Rlimit     `json:"rlimits"`
}

// User is the user of the first process.
type User struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Capabilities has no inheritable and no ambient set: both stay empty.
type Capabilities struct {
	Bounding  []string `json:"bounding"`
	Effective []string `json:"effective"`
	Permitted []string `json:"permitted"`
}

// Rlimit is one resource limit.
type Rlimit struct {
	Type string `json:"type"`
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Mount is one mount below the root.
type Mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

// Linux is the part that only Linux has.
type Linux struct {
	Namespaces    []Namespace `json:"namespaces"`
	ReadonlyPaths []string    `json:"readonlyPaths"`
}

// Namespace is a new namespace of the container.
type Namespace struct {
	Type string `json:"type"`
}

// New returns the configuration of a sandbox.
func New(s Spec) Config {
	rlimits := []Rlimit{{Type: "RLIMIT_CORE"}}
	if s.Files > 0 {
		rlimits = append(rlimits, Rlimit{Type: "RLIMIT_NOFILE", Soft: s.Files, Hard: s.Files})
	}
	granted, kinds, readonly := Granted, Namespaces, readonlyPaths
	if s.Docker {
		granted, kinds, readonly = everyCapability, DockerNamespaces, nil
	}
	var namespaces []Namespace
	for _, kind := range kinds {
		namespaces = append(namespaces, Namespace{Type: kind})
	}
	return Config{
		OCIVersion: "1.0.2",
		Hostname:   s.Hostname,
		Root:       Root{Path: s.Root},
		Process: Process{
			Args: append([]string{PoddPath}, s.PoddArgs...),
			Env:  Env,
			Cwd:  "/",
			// podd sets no_new_privs for each payload that must have it. With sudo, some payloads do not.
			NoNewPrivileges: false,
			Capabilities:    Capabilities{Bounding: granted, Effective: granted, Permitted: granted},
			Rlimits:         rlimits,
		},
		Mounts: mounts(s),
		Linux:  Linux{Namespaces: namespaces, ReadonlyPaths: readonly},
	}
}

func mounts(s Spec) []Mount {
	tmpfs := func(destination, mode string, bytes int64) Mount {
		options := []string{"nosuid", "nodev", "mode=" + mode}
		if bytes > 0 {
			options = append(options, "size="+strconv.FormatInt(bytes, 10))
		}
		return Mount{Destination: destination, Type: "tmpfs", Source: "tmpfs", Options: options}
	}
	all := []Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", "max=" + strconv.Itoa(terminals)}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		tmpfs("/dev/shm", "1777", 0),
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
		tmpfs("/tmp", "1777", 0),
		tmpfs("/run", "755", 64<<20),
		{Destination: "/proc/sys/kernel/random/boot_id", Type: "bind", Source: s.BootID,
			Options: []string{"bind", "ro", "nosuid", "noexec", "nodev"}},
	}
	if s.Docker {
		for i := range all {
			if all[i].Destination == "/sys" {
				all[i].Options = []string{"nosuid", "noexec", "nodev"}
			}
		}
		all = append(all, Mount{Destination: GroupsPath, Type: "cgroup2", Source: "cgroup2", Options: []string{"nosuid", "noexec", "nodev"}})
	}
	return all
}

// GroupsPath is where a container engine finds the sandbox's control groups.
const GroupsPath = "/sys/fs/cgroup"
