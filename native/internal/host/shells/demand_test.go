package shells

import (
	"testing"
	"time"
)

func TestNoShellIsKeptBeforeTheFirstStart(t *testing.T) {
	if d := (demand{least: 4}); d.target(time.Now()) != 0 {
		t.Fatal("shells are kept for a client that starts nothing")
	}
}

func TestTheNumberOfShellsFollowsRecentStarts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := demand{least: 4}
	d.add(now)
	if got := d.target(now); got != 4 {
		t.Fatalf("%d shells after one start", got)
	}
	for i := 0; i < 99; i++ {
		d.add(now.Add(time.Duration(i) * time.Millisecond))
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 25}, {demandWindow + time.Second, 25}, {2*demandWindow + time.Second, 4}, {time.Hour, 4}} {
		if got := d.target(now.Add(step.after)); got != step.want {
			t.Errorf("%d shells after %v, not %d", got, step.after, step.want)
		}
	}
}
