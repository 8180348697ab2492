package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	askTimeout = 5 * time.Second
	// scopePrefix is the beginning of the names of our systemd scopes.
	scopePrefix = "agentpod-"
)

// AskForScope asks the user's systemd to put this process into a scope of its own, in which this user may
// make and limit control groups. The error says what is missing and which command fixes it.
func AskForScope(uid int) error {
	root, there := readMounts()[""]
	if controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); !there || err != nil || !strings.Contains(string(controllers), "memory") {
		return errors.New("this machine has cgroup v1, which an ordinary user cannot use: boot with systemd.unified_cgroup_hierarchy=1, or run as root")
	}
	return askForScope(fmt.Sprintf("/run/user/%d", uid), uid, askTimeout)
}

func askForScope(runtimeDir string, uid int, timeout time.Duration) error {
	if strings.HasPrefix(filepath.Base(ownGroup()), scopePrefix) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(runtimeDir, "bus")); err != nil {
		return fmt.Errorf("this user has no systemd session: run `sudo loginctl enable-linger %d`, then `agentpod server stop`", uid)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	name := fmt.Sprintf("%s%d-%d.scope", scopePrefix, os.Getpid(), time.Now().UnixNano())
	if err := startScope(ctx, runtimeDir, name); err != nil {
		return err
	}
	// systemd answers before it has moved the process.
	for wait := time.Millisecond; ; wait *= 2 {
		if filepath.Base(ownGroup()) == name {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("systemd did not move podhost into %s within %v: `systemctl --user status` shows why", name, timeout)
		}
		time.Sleep(wait)
	}
}

// startScope asks for a scope of that name with this process in it.
func startScope(ctx context.Context, runtimeDir, name string) error {
	ask := exec.CommandContext(ctx, "busctl", "--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
		"org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail",
		"4", "Description", "s", "AgentPod's sandboxes", "Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed",
		"PIDs", "au", "1", strconv.Itoa(os.Getpid()), "0")
	ask.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtimeDir, "DBUS_SESSION_BUS_ADDRESS=unix:path="+filepath.Join(runtimeDir, "bus"))
	// A child that busctl leaves behind must not delay podhost.
	ask.WaitDelay = 100 * time.Millisecond
	said, err := ask.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("busctl is missing, which asks systemd for a cgroup: install the systemd package")
	case ctx.Err() != nil:
		return errors.New("systemd did not answer when asked for a cgroup: `systemctl --user status` shows why")
	default:
		return fmt.Errorf("systemd gave no cgroup: %s (%v): `systemctl --user status` shows why", strings.TrimSpace(string(said)), err)
	}
}

// ownGroup is the path of this process's group in the v2 hierarchy, or "" if there is none.
func ownGroup() string {
	data, _ := os.ReadFile("/proc/self/cgroup")
	_, own, _ := strings.Cut("\n"+string(data), "\n0::")
	own, _, _ = strings.Cut(own, "\n")
	return own
}
