package bundle

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheRuntimeConfigurationRestrictsASandbox(t *testing.T) {
	data, err := json.Marshal(New(Spec{Hostname: "box", Root: "/mnt/root/abcd", BootID: "/mnt/file/boot-abcd", PoddArgs: []string{"--listener-fd", "3"}, Files: 256}))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Process struct {
			Args    []string
			Rlimits []struct {
				Type       string
				Soft, Hard int
			}
			Capabilities map[string][]string
		}
		Mounts []struct {
			Destination, Type, Source string
			Options                   []string
		}
		Linux struct {
			Namespaces    []struct{ Type, Path string }
			ReadonlyPaths []string
		}
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, namespace := range config.Linux.Namespaces {
		kinds[namespace.Type] = namespace.Path
	}
	for _, kind := range []string{"user", "pid", "mount", "network", "ipc", "uts", "cgroup"} {
		if path, there := kinds[kind]; !there || path != "" {
			t.Errorf("namespace %s: %v, path %q", kind, there, path)
		}
	}
	for set, names := range config.Process.Capabilities {
		for _, name := range names {
			switch name {
			case "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_MKNOD", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_RESOURCE":
				t.Errorf("%s has %s", set, name)
			}
		}
		if set == "ambient" || set == "inheritable" {
			t.Errorf("%s capabilities: %v", set, names)
		}
	}
	// The only file of the host that the runtime binds is the one for the boot id.
	for _, m := range config.Mounts {
		if options := strings.Join(m.Options, ","); strings.Contains(options, "bind") && (m.Source != "/mnt/file/boot-abcd" || !strings.Contains(options, "ro")) {
			t.Errorf("mount %+v", m)
		}
	}
	// podd covers the rest of /proc and /sys itself.
	if joined := strings.Join(config.Linux.ReadonlyPaths, " "); joined != "/proc/sys" {
		t.Errorf("read-only paths %s", joined)
	}
	if len(config.Process.Rlimits) != 2 || config.Process.Rlimits[0].Hard != 0 || config.Process.Rlimits[1].Hard != 256 {
		t.Errorf("rlimits %+v", config.Process.Rlimits)
	}
}
