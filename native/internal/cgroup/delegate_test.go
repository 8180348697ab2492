package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// withBusctl makes the script the only busctl, and a directory with a bus.
func withBusctl(t *testing.T, script string) (runtimeDir string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "busctl"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		dir += ":" + os.Getenv("PATH")
	}
	t.Setenv("PATH", dir)
	runtimeDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(runtimeDir, "bus"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return runtimeDir
}

// unified is the v2 hierarchy, in which root may make groups, with or without controllers.
func unified(t *testing.T) string {
	t.Helper()
	root, there := readMounts()[""]
	if os.Geteuid() != 0 || !there {
		t.Skip("needs root and a cgroup v2 hierarchy")
	}
	return root
}

func TestPodhostMovesIntoTheScopeItAskedFor(t *testing.T) {
	root, before := unified(t), ownGroup()
	// The arguments of busctl, according to systemd's documentation of StartTransientUnit: the signature,
	// then a value for each letter of it.
	runtimeDir := withBusctl(t, fmt.Sprintf(`
want="--user --quiet call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit"
want="$want ssa(sv)a(sa(sv)) $9 fail 4 Description s AgentPod's sandboxes Delegate b true CollectMode s inactive-or-failed PIDs au 1 $PPID 0"
[ "$*" = "$want" ] || { echo "called with $*"; exit 1; }
[ "$DBUS_SESSION_BUS_ADDRESS" = "unix:path=$XDG_RUNTIME_DIR/bus" ] || { echo "the bus is $DBUS_SESSION_BUS_ADDRESS"; exit 1; }
mkdir "%[1]s/$9" || exit
{ sleep 0.2; echo $PPID > "%[1]s/$9/cgroup.procs"; } >/dev/null 2>&1 &
`, root))
	if err := askForScope(runtimeDir, 1000, askTimeout); err != nil {
		t.Fatal(err)
	}
	scope := ownGroup()
	t.Cleanup(func() {
		write(filepath.Join(root, before), "cgroup.procs", "0")
		if err := removeDir(filepath.Join(root, scope)); err != nil {
			t.Error(err)
		}
	})
	if name := filepath.Base(scope); !strings.HasPrefix(name, scopePrefix) || !strings.HasSuffix(name, ".scope") || !isBoundary(filepath.Join(root, scope)) {
		t.Errorf("the scope is %s", scope)
	}
	// A process that is in a scope does not ask for another.
	withBusctl(t, "exit 1")
	if err := askForScope(runtimeDir, 1000, askTimeout); err != nil || ownGroup() != scope {
		t.Errorf("the second time: %v, in %s", err, ownGroup())
	}
}

func TestARefusedScopeSaysWhatToDo(t *testing.T) {
	for name, one := range map[string]struct{ script, says string }{
		"refused":      {"echo 'Call failed: Access denied' >&2; exit 1", "Call failed: Access denied"},
		"no answer":    {"exec sleep 60", "did not answer"},
		"not moved":    {"exit 0", "did not move podhost"},
		"not there":    {"", "install the systemd package"},
		"a long child": {"sleep 5 & echo 'Call failed: Busy' >&2; exit 1", "Call failed: Busy"},
	} {
		t.Run(name, func(t *testing.T) {
			before, began := ownGroup(), time.Now()
			err := askForScope(withBusctl(t, one.script), 1000, 300*time.Millisecond)
			if err == nil || !strings.Contains(err.Error(), one.says) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 3*time.Second || ownGroup() != before {
				t.Errorf("it took %v, and we are in %s", took, ownGroup())
			}
		})
	}
	if err := askForScope(t.TempDir(), 1234, askTimeout); err == nil || !strings.Contains(err.Error(), "sudo loginctl enable-linger 1234") {
		t.Errorf("without a bus: %v", err)
	}
}

func TestOnlyADelegatedGroupIsEmptied(t *testing.T) {
	root := unified(t)
	given := filepath.Join(root, fmt.Sprintf("test-%d", os.Getpid()))
	inner := filepath.Join(given, "terminal")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		removeDir(inner)
		removeDir(given)
	})
	// Here root owns these groups, and 65534 is another user.
	if isBoundary(inner) {
		t.Error("a group below one's own was given by nobody")
	}
	if err := os.Chown(given, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if !isBoundary(inner) {
		t.Error("a group below somebody else's was given")
	}
}
