package boot

import (
	"fmt"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/mount"

	"golang.org/x/sys/unix"
)

// FileLimit returns the limit on open files that can be set. It is never above podhost's own limit: raising a
// limit takes a capability that podhost may not have.
func FileLimit(asked int64) (uint64, cgroup.Level) {
	if asked == 0 {
		return 0, cgroup.NotAsked
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err == nil && own.Max < uint64(asked) {
		return own.Max, cgroup.Level{Level: "enforced", Reason: fmt.Sprintf("at %d, podhost's own limit", own.Max)}
	}
	return uint64(asked), cgroup.Enforced
}

// ShellFiles is the limit on open files of podd before a sandbox takes it.
func ShellFiles() uint64 {
	files, _ := FileLimit(mostFiles)
	return files
}

// LowerLimit sets a resource limit of a process in a sandbox's user namespace, and so of all that it starts.
func LowerLimit(pid, resource int, to uint64) error {
	limit := unix.Rlimit{Cur: to, Max: to}
	if err := mount.AsOwnerOf(pid, func() error { return unix.Prlimit(pid, resource, &limit, nil) }); err != nil {
		return fmt.Errorf("prlimit: %w", err)
	}
	return nil
}
