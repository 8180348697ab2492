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

func TestTheNumberOfShellsFollowsRecentBursts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := demand{least: 4}
	for i := 0; i < 100; i++ {
		d.startBegins(now)
		d.startEnds(now)
		d.shellMade()
	}
	if got := d.target(now); got != 4 {
		t.Fatalf("%d shells after 100 starts one after another", got)
	}
	// Starts that find a shell are so short that they hardly overlap.
	for i := 0; i < 25; i++ {
		d.startBegins(now)
		d.startEnds(now)
	}
	d.enough()
	d.startBegins(now)
	d.startEnds(now)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 25}, {demandWindow + time.Second, 25}, {2*demandWindow + time.Second, 4}, {time.Hour, 4}} {
		if got := d.target(now.Add(step.after)); got != step.want {
			t.Errorf("%d shells after %v, not %d", got, step.after, step.want)
		}
	}
}

func TestAShellWaitsForTheEndOfAStartAndAQuietMoment(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := demand{least: 4}
	d.startBegins(now)
	if got := d.untilQuiet(now.Add(time.Hour)); got != quiet {
		t.Errorf("%v to wait during a start", got)
	}
	d.startEnds(now.Add(time.Second))
	if got := d.untilQuiet(now.Add(time.Second + quiet)); got > 0 {
		t.Errorf("%v to wait after a quiet moment", got)
	}
}
