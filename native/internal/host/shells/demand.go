package shells

import "time"

// demandWindow is how long a burst counts as demand.
const demandWindow = 30 * time.Second

// demand decides how many shells to keep from how many more sandboxes than shells were started lately. A
// burst is usually followed by another one, and an idle machine should not hold memory for it. Starts one
// after another need no more shells, because each shell that is taken is replaced.
type demand struct {
	least int
	// starting is how many sandboxes start now. last is when that changed.
	starting int
	last     time.Time
	// behind is how many more sandboxes than shells were started since there were enough shells.
	behind int
	// peaks are the highest numbers in the last two windows, the current one last.
	peaks [2]int
	begin time.Time
}

// startBegins counts a sandbox that starts.
func (d *demand) startBegins(now time.Time) {
	d.advance(now)
	d.starting++
	d.behind++
	d.last = now
	if d.behind > d.peaks[1] {
		d.peaks[1] = d.behind
	}
}

// shellMade counts a shell that replaces another one.
func (d *demand) shellMade() {
	if d.behind > 0 {
		d.behind--
	}
}

// enough says that as many shells are ready as should be.
func (d *demand) enough() { d.behind = 0 }

// startEnds ends what startBegins began.
func (d *demand) startEnds(now time.Time) {
	d.starting--
	d.last = now
}

// advance begins a new window when the current one is over.
func (d *demand) advance(now time.Time) {
	switch since := now.Sub(d.begin); {
	case since >= 2*demandWindow:
		d.peaks, d.begin = [2]int{}, now
	case since >= demandWindow:
		d.peaks, d.begin = [2]int{d.peaks[1], 0}, d.begin.Add(demandWindow)
	}
}

// target is 0 before the first start.
func (d *demand) target(now time.Time) int {
	if d.begin.IsZero() {
		return 0
	}
	d.advance(now)
	target := d.least
	for _, peak := range d.peaks {
		if peak > target {
			target = peak
		}
	}
	return target
}

// untilQuiet is how long to wait before a shell is made, if none is urgent.
func (d *demand) untilQuiet(now time.Time) time.Duration {
	if d.starting > 0 {
		return quiet
	}
	return quiet - now.Sub(d.last)
}
