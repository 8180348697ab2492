package archive

import (
	"io"

	"agentpod/native/internal/connect"
)

const (
	maxEntries = 2_000_000
	maxBytes   = 64 << 30
	maxRatio   = 1000
	// freeBytes of output are allowed before the ratio counts: a small archive of zeros is no bomb.
	freeBytes = 64 << 20
)

// Meter counts the bytes that go into a decoder and come out of it, and refuses a decompression bomb.
type Meter struct {
	source  io.Reader
	in, out int64
}

// NewMeter meters the undecoded source.
func NewMeter(source io.Reader) *Meter { return &Meter{source: source} }

func (m *Meter) Read(buf []byte) (int, error) {
	n, err := m.source.Read(buf)
	m.in += int64(n)
	return n, err
}

// Grow adds size bytes to the output before they are written.
func (m *Meter) Grow(size int64) error {
	if size < 0 || size > maxBytes-m.out {
		return connect.TooLarge("the data is larger than %d bytes when decompressed", int64(maxBytes))
	}
	m.out += size
	if m.out > freeBytes && m.out/maxRatio > m.in {
		return connect.TooLarge("the data is more than %d times larger when decompressed", maxRatio)
	}
	return nil
}

// Output meters a decoder's output.
func (m *Meter) Output(decoder io.Reader) io.Reader { return &metered{m, decoder} }

type metered struct {
	meter   *Meter
	decoder io.Reader
}

func (r *metered) Read(buf []byte) (int, error) {
	n, err := r.decoder.Read(buf)
	if over := r.meter.Grow(int64(n)); over != nil {
		return 0, over
	}
	return n, err
}
