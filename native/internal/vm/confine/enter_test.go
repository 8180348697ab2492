package confine

import (
	"reflect"
	"strings"
	"testing"
)

func TestArgumentsSayWhatTheRootIs(t *testing.T) {
	root := Root{Program: "/p", Scratch: "/s", UID: 7, KVM: true, Random: true, Shown: []string{"/a", "/b"}, Mounts: map[string]int{"/run": 3, "/machine/memory": 4}}
	found, rest, err := parse(append(root.Arguments()[1:], "--api-socket", "fd=3"))
	if err != nil || !reflect.DeepEqual(found, root) || !reflect.DeepEqual(rest, []string{"--api-socket", "fd=3"}) {
		t.Errorf("%+v %q, %v", found, rest, err)
	}
}

func TestAProgramDoesNotRunAsRoot(t *testing.T) {
	err := Enter(Root{Program: "/bin/qemu", Scratch: t.TempDir()}.Arguments()[1:])
	if err == nil || !strings.Contains(err.Error(), "qemu must not run as root") {
		t.Errorf("%v", err)
	}
}

func TestAMountIsANumberAndAnAbsolutePath(t *testing.T) {
	for _, text := range []string{"", "3", "3:run", "x:/run"} {
		if _, _, err := parse([]string{"--mount", text}); err == nil {
			t.Errorf("%q is a mount", text)
		}
	}
}
