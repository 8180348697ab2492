package boot

import (
	"errors"
	"testing"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/ids"
)

type failingGroups struct{ cgroup.Manager }

var errNoGroups = errors.New("no groups here")

func (failingGroups) Create(string, cgroup.Limits) (*cgroup.Group, error) { return nil, errNoGroups }

func TestStartReturnsTheErrorOfAFailedBoot(t *testing.T) {
	launcher := &Launcher{Home: t.TempDir(), Cgroups: failingGroups{}}
	run := NewRun(launcher.Home, "a", Container)
	run.SetIDs(&ids.Range{})
	if err := launcher.Start(run); !errors.Is(err, errNoGroups) {
		t.Fatalf("got %v", err)
	}
}
