package safefs

// Room says whether the disk still has room for more; nil stands for a disk that always has.
type Room func() error

// RoomEvery is how much is written between two looks at the disk: a fraction of what it keeps in reserve.
const RoomEvery = 64 << 20

// A Gauge asks for room while something is written.
type Gauge struct {
	Room  Room
	since int64
}

// Took counts bytes that were written, or are about to be.
func (g *Gauge) Took(bytes int64) error {
	if g.since += bytes; g.Room == nil || g.since < RoomEvery {
		return nil
	}
	g.since = 0
	return g.Room()
}

func (g *Gauge) Write(p []byte) (int, error) { return len(p), g.Took(int64(len(p))) }
