package safefs

// SpaceCheck fails if the disk has no space for more; nil is a disk that always has.
type SpaceCheck func() error

// CheckEvery is how many bytes are written between two checks: a fraction of the disk's reserve.
const CheckEvery = 64 << 20

// A SpaceMeter checks the space while something is written.
type SpaceMeter struct {
	Check SpaceCheck
	since int64
}

// Took counts bytes that were written, or are about to be.
func (m *SpaceMeter) Took(bytes int64) error {
	if m.since += bytes; m.Check == nil || m.since < CheckEvery {
		return nil
	}
	m.since = 0
	return m.Check()
}

func (m *SpaceMeter) Write(p []byte) (int, error) { return len(p), m.Took(int64(len(p))) }
