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
	start := func() {
		d.startBegins(now)
		d.shellAsked(now)
		d.startEnds(now)
	}
	for i := 0; i < 100; i++ {
		start()
		d.shellMade()
	}
	if got := d.target(now); got != 4 {
		t.Fatalf("%d shells after 100 starts one after another", got)
	}
	// Starts that find a shell are so short that they hardly overlap.
	for i := 0; i < 25; i++ {
		start()
	}
	d.enough()
	start()
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 25}, {demandWindow + time.Second, 25}, {2*demandWindow + time.Second, 4}, {time.Hour, 4}} {
		if got := d.target(now.Add(step.after)); got != step.want {
			t.Errorf("%d shells after %v, not %d", got, step.after, step.want)
		}
	}
}

func TestStartsThatOutpaceTheShellsAreNoEverLargerBurst(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := demand{least: 4}
	// A hundred each second, and half as many shells.
	for i := 0; i < 1000; i++ {
		now = now.Add(10 * time.Millisecond)
		d.startBegins(now)
		d.shellAsked(now)
		d.startEnds(now)
		if i%2 == 0 {
			d.shellMade()
		}
	}
	if got, most := d.target(now), int(burst/(10*time.Millisecond))+1; got > most {
		t.Errorf("%d shells, though only %d were needed in any burst", got, most)
	}
}

func TestASandboxThatTakesNoShellNeedsNone(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := demand{least: 2}
	for i := 0; i < 25; i++ {
		d.startBegins(now)
		d.startEnds(now)
	}
	if got := d.target(now); got != 2 {
		t.Errorf("%d shells", got)
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
