package host

import (
	"sync"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
)

const (
	// maxLong bounds the requests under way that take as long as there are files; maxWaiting those that wait to be one of them.
	maxLong    = 4
	maxWaiting = 64
)

// lanes keep long requests from taking the places of others.
type lanes struct {
	long    chan struct{}
	waiting chan struct{}
}

func newLanes() lanes {
	return lanes{long: make(chan struct{}, maxLong), waiting: make(chan struct{}, maxWaiting)}
}

// A slot is a request's place among those under way. It is taken from the channel that holds it.
type slot struct {
	once sync.Once
	work chan struct{}
}

// release gives the place among ordinary requests back; a second time does nothing.
func (s *slot) release() { s.once.Do(func() { <-s.work }) }

// enterLong moves a request over to the long ones, whose end is done, when there is a place. No lock may be held: the wait may be long, too.
func (h *Host) enterLong(s *slot) (done func(), err error) {
	select {
	case h.lanes.waiting <- struct{}{}:
	default:
		return nil, hostproto.Errorf(hostproto.ResourceExhausted, "host.busy", "%d imports, exports and copies are waiting already", maxWaiting).
			WithHint("try again when some of them are done")
	}
	defer func() { <-h.lanes.waiting }()
	s.release()
	select {
	case h.lanes.long <- struct{}{}:
		return func() { <-h.lanes.long }, nil
	case <-h.stopping:
		return nil, hostproto.Errorf(hostproto.Unavailable, "host.leaving", "podhost is leaving").WithHint("try again")
	}
}

// isLong reports whether a request reads or writes file by file. What it finds may change before the request has its locks; then the request is
// in the wrong lane, and nothing else is wrong.
func (h *Host) isLong(request hostproto.Request) bool {
	switch args := request.Args.(type) {
	case hostproto.LayerFile:
		return request.Op == "layer.export" || !h.layers.Has(args.Digest)
	case hostproto.ExportSnapshot:
		return true
	case hostproto.ImportSnapshot:
		s, err := h.loadSnapshot(args.ID)
		return s == nil && err == nil
	case hostproto.CreateSandbox:
		if args.Snapshot == "" {
			return false
		}
		s, err := h.loadSnapshot(args.Snapshot)
		return err == nil && s != nil && h.isCopied(s.files(), pool.Sandboxes, args.ID)
	case hostproto.CreateSnapshot:
		handle, err := h.load(args.Sandbox)
		return err == nil && handle.exists() && h.isCopied(handle.files(), pool.Snapshots, args.ID)
	}
	return false
}

// isCopied reports whether a new entry made from another one would be a copy, file by file.
func (h *Host) isCopied(from pool.Entry, area pool.Area, id string) bool {
	to, err := h.pool.Entry(area, id)
	return err == nil && !h.pool.Clones(from, to)
}
