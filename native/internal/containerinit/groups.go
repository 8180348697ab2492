package containerinit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentpod/native/internal/bundle"
)

// DelegateGroups lets a container engine make groups beside that of podd, with the controllers that the
// sandbox has. A group with processes of its own cannot give controllers to others, so podd leaves the
// sandbox's for one below it. What podd starts is in podd's.
func DelegateGroups() error {
	own := filepath.Join(bundle.GroupsPath, "podd")
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	controllers, err := os.ReadFile(filepath.Join(bundle.GroupsPath, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(bundle.GroupsPath, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
			return err
		}
	}
	return nil
}
