package boot

import (
	"errors"
	"testing"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/stopwatch"
)

type failingGroups struct{ cgroup.Manager }

var errNoGroups = errors.New("no groups here")

func (failingGroups) Create(string, cgroup.Limits) (*cgroup.Group, error) { return nil, errNoGroups }

func TestPrepareReturnsTheErrorOfAFailedBoot(t *testing.T) {
	launcher := &Launcher{Home: t.TempDir(), Cgroups: failingGroups{}}
	boot, err := launcher.Prepare(&Run{Name: "a"}, cgroup.Limits{}, stopwatch.New())
	if boot != nil || !errors.Is(err, errNoGroups) {
		t.Fatalf("got %v and %v", boot, err)
	}
}
