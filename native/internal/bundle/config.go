// Package bundle writes the OCI runtime configuration of a sandbox.
package bundle

import "strconv"

// Spec has the parts that differ between sandboxes.
type Spec struct {
	Hostname string
	// Root is the mounted root file system.
	Root string
	// UserNamespace is the path of the sealed namespace to join.
	UserNamespace string
	// NetworkNamespace is the path of a network namespace that belongs to it. If it is "", the runtime makes
	// one without any connection to the outside.
	NetworkNamespace string
	// BootID is the file shown as the kernel's boot id.
	BootID             string
	PoddArgs           []string
	Files              uint64
	TmpBytes, ShmBytes int64
}

// terminals is how many pseudo-terminals a sandbox may have. The kernel has 4096 for the whole machine
// (kernel.pty.max).
//
// SECURITY: RS-15.
const terminals = 128

// PoddPath is the path of podd inside every sandbox.
const PoddPath = "/.agentpod/podd"

// podd starts with the capabilities that it needs to install its seccomp filter and to set up payloads, and
// drops the rest before it serves. A payload gets none of them.
var capabilities = []string{
	"CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER",
	"CAP_FSETID", "CAP_SETFCAP", "CAP_SYS_CHROOT", "CAP_NET_BIND_SERVICE",
}

// readonlyPaths is short, because podd covers everything else of /proc and /sys that a sandbox must not see.
var readonlyPaths = []string{"/proc/sys"}

type object = map[string]any

// Config returns the configuration, ready to be encoded. It has no seccomp section, because podd installs the
// filter itself, also where there is no OCI runtime. It has no resources, because podhost writes the cgroups.
func Config(s Spec) object {
	rlimits := []object{
		{"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
	}
	if s.Files > 0 {
		rlimits = append(rlimits, object{"type": "RLIMIT_NOFILE", "soft": s.Files, "hard": s.Files})
	}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   s.Hostname,
		"root":       object{"path": s.Root, "readonly": false},
		"process": object{
			"terminal": false,
			"user":     object{"uid": 0, "gid": 0},
			"args":     append([]string{PoddPath}, s.PoddArgs...),
			"env":      []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"cwd":      "/",
			// podd sets no_new_privs for each payload that must have it. With sudo, some payloads do not.
			"noNewPrivileges": false,
			"capabilities":    object{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
			"rlimits":         rlimits,
		},
		"mounts": mounts(s),
		"linux": object{
			"namespaces": []object{
				{"type": "user", "path": s.UserNamespace},
				network(s.NetworkNamespace), {"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "cgroup"},
			},
			"readonlyPaths": readonlyPaths,
		},
	}
}

func network(path string) object {
	if path == "" {
		return object{"type": "network"}
	}
	return object{"type": "network", "path": path}
}

func mounts(s Spec) []object {
	tmpfs := func(destination, mode string, bytes int64, extra ...string) object {
		options := append([]string{"nosuid", "nodev", "mode=" + mode}, extra...)
		if bytes > 0 {
			options = append(options, "size="+strconv.FormatInt(bytes, 10))
		}
		return object{"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": options}
	}
	return []object{
		{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"destination": "/dev/pts", "type": "devpts", "source": "devpts",
			"options": []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", "max=" + strconv.Itoa(terminals)}},
		{"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": []string{"nosuid", "noexec", "nodev"}},
		tmpfs("/dev/shm", "1777", s.ShmBytes),
		{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"ro", "nosuid", "noexec", "nodev"}},
		tmpfs("/tmp", "1777", s.TmpBytes),
		tmpfs("/run", "755", 64<<20),
		{"destination": "/proc/sys/kernel/random/boot_id", "type": "bind", "source": s.BootID,
			"options": []string{"bind", "ro", "nosuid", "noexec", "nodev"}},
	}
}
