// Package enter moves podhost into its own namespaces before it starts to work. Go programs have threads from
// the start, and namespaces belong to threads. So each step ends in an exec, which leaves one thread in its
// namespaces.
package enter

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// MountNamespace re-executes this program with args in a private mount namespace. It returns only on failure.
func MountNamespace(args []string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return Unable{fmt.Sprintf("root cannot make a mount namespace (%v): in a container, run AgentPod as an ordinary user, or give the container CAP_SYS_ADMIN", err)}
	}
	return reexec(args)
}

// reexec also joins a new session keyring. All sandboxes share podhost's empty keyring, which no program
// inside can use, because the seccomp filter refuses keyctl. One keyring per sandbox would soon exceed the
// kernel's limit for an ordinary user.
func reexec(args []string) error {
	runtime.LockOSThread()
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("join a session keyring: %w", err)
	}
	return unix.Exec("/proc/self/exe", append([]string{os.Args[0]}, args...), os.Environ())
}

// PrepareMounts completes the namespace from the inside. No mount leaves it. Mounts of the host still come in
// and, more important, unmounts do: podhost keeps no disk busy that its owner wants to unmount. crun also
// gets a cgroup tree that it can read: on a hybrid host crun 1.8 refuses to run as long as the v2 mount lists
// a controller, even with its cgroup handling off.
func PrepareMounts(rootless bool) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("slave mounts: %w", err)
	}
	unified := hybridMount()
	if unified == "" {
		return nil
	}
	if !rootless {
		return unix.Unmount(unified, unix.MNT_DETACH)
	}
	// A mount that comes from the parent's namespace cannot be unmounted here, only covered.
	return unix.Mount("agentpod", "/sys/fs/cgroup", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m")
}

// hybridMount returns the v2 mount point of a host whose main controllers are v1, or "". A v1 hierarchy for
// something else, such as a VPN's net_cls, does not make a host hybrid.
func hybridMount() string {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	unified, v1 := "", false
	for _, line := range strings.Split(string(data), "\n") {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		switch {
		case len(fields) < 5:
		case strings.HasPrefix(after, "cgroup2 "):
			unified = fields[4]
		case strings.HasPrefix(after, "cgroup "):
			v1 = v1 || strings.Contains(after+",", ",memory,") || strings.Contains(after+",", ",pids,")
		}
	}
	if !v1 {
		return ""
	}
	return unified
}
