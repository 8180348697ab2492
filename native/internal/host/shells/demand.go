package shells

import "time"

// demandWindow is how long a start counts as demand.
const demandWindow = 30 * time.Second

// demand decides how many shells to keep from how many sandboxes started lately. A burst is usually followed
// by another one, and an idle machine should not hold memory for it.
type demand struct {
	least int
	// starts are the numbers of starts in the last two windows, the current one last.
	starts [2]int
	begin  time.Time
}

// add counts a start.
func (d *demand) add(now time.Time) {
	d.advance(now)
	d.starts[1]++
}

// advance begins a new window when the current one is over.
func (d *demand) advance(now time.Time) {
	switch since := now.Sub(d.begin); {
	case since >= 2*demandWindow:
		d.starts, d.begin = [2]int{}, now
	case since >= demandWindow:
		d.starts, d.begin = [2]int{d.starts[1], 0}, d.begin.Add(demandWindow)
	}
}

// target is 0 before the first start.
func (d *demand) target(now time.Time) int {
	if d.begin.IsZero() {
		return 0
	}
	d.advance(now)
	target := d.least
	for _, starts := range d.starts {
		if more := starts / burstShare; more > target {
			target = more
		}
	}
	return target
}

// burstShare is how many starts in a window make one more shell. Starts one after another are served by
// refilling; only some of them come at once.
const burstShare = 4
