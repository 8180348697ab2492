package containerinit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"agentpod/native/internal/bundle"
)

func config(t *testing.T) (bundle.Config, []byte) {
	t.Helper()
	made := bundle.New(bundle.Spec{Hostname: "box", Root: "/mnt/blank", BootID: "/mnt/file/boot", PoddArgs: []string{"--wait-ms", "1"}, Files: 256})
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	return made, data
}

func TestAConfigurationIsReadAsItWasWritten(t *testing.T) {
	_, data := config(t)
	read, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(read)
	if err != nil || !bytes.Equal(again, data) {
		t.Fatalf("%s became %s, %v", data, again, err)
	}
}

func TestARestrictionThatIsNotAppliedIsRefused(t *testing.T) {
	_, data := config(t)
	for _, added := range []string{`{"seccomp":{},`, `{"maskedPaths":["/proc/kcore"],`} {
		changed := strings.Replace(string(data), `"linux":{`, `"linux":`+added, 1)
		if _, err := Read(strings.NewReader(changed)); err == nil {
			t.Errorf("%s was accepted", added)
		}
	}
	if _, err := Read(strings.NewReader(string(data[:len(data)/2]))); err == nil {
		t.Error("half a configuration was accepted")
	}
}

func TestAConfigurationThatThisProcessDoesNotMatchIsRefused(t *testing.T) {
	for name, change := range map[string]func(c *bundle.Config){
		"fewer namespaces":         func(c *bundle.Config) { c.Linux.Namespaces = c.Linux.Namespaces[1:] },
		"a terminal":               func(c *bundle.Config) { c.Process.Terminal = true },
		"no_new_privs":             func(c *bundle.Config) { c.Process.NoNewPrivileges = true },
		"another user":             func(c *bundle.Config) { c.Process.User.UID = 7 },
		"a root that is read-only": func(c *bundle.Config) { c.Root.Readonly = true },
		// The control: only the pid of this process is wrong.
		"nothing": func(*bundle.Config) {},
	} {
		made, _ := config(t)
		change(&made)
		err := Apply(made, bundle.Namespaces)
		if err == nil {
			t.Fatalf("%s: applied to the process of a test", name)
		}
		if isControl := name == "nothing"; isControl != strings.Contains(err.Error(), "not the first") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACapabilityThatCannotBeGrantedIsRefused(t *testing.T) {
	if err := checkCapabilities(bundle.Capabilities{Bounding: []string{"CAP_NOTHING"}}); err == nil || !strings.Contains(err.Error(), "CAP_NOTHING") {
		t.Fatalf("got %v", err)
	}
}
