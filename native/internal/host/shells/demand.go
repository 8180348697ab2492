package shells

import "time"

// demandWindow is how long a burst counts as demand.
const demandWindow = 30 * time.Second

// burst is how long the starts of a burst may take. What is asked for later finds shells that were made
// meanwhile.
const burst = 500 * time.Millisecond

// demand decides how many shells to keep from how many were lacking in bursts lately. A burst is usually
// followed by another one, and an idle machine should not hold memory for it. Starts one after another need
// no more shells, because each shell that is taken is replaced.
type demand struct {
	least int
	// starting is how many sandboxes start now. last is when that changed.
	starting int
	last     time.Time
	// behind is how many more shells were asked for than made since there were enough of them. asked are the
	// moments of those that were asked for in the last burst.
	behind int
	asked  []time.Time
	// peaks are the highest numbers in the last two windows, the current one last.
	peaks [2]int
	begin time.Time
}

// startBegins counts a sandbox that starts.
func (d *demand) startBegins(now time.Time) {
	d.advance(now)
	d.starting++
	d.last = now
}

// shellAsked counts a sandbox that takes a shell, or would if there was one.
func (d *demand) shellAsked(now time.Time) {
	d.advance(now)
	d.behind++
	d.asked = append(d.asked, now)
	for now.Sub(d.asked[0]) > burst {
		d.asked = d.asked[1:]
	}
	lacking := d.behind
	if lacking > len(d.asked) {
		lacking = len(d.asked)
	}
	if lacking > d.peaks[1] {
		d.peaks[1] = lacking
	}
}

// shellMade counts a shell that is ready.
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
