package host

// A file system with simple quotas charges a block to the sandbox that wrote it until nobody has the block
// any more. What a snapshot keeps would count against its sandbox even after the sandbox has deleted it. The
// limit is therefore higher by what snapshots keep, as if the sandbox had been made from the last one.
//
// INVARIANT: a snapshot raises the limit by no more than what it keeps alone, and as long as it exists. All
// that a sandbox and its snapshots take is thereby at most the limit times one more than the number of
// snapshots.

// limitDisk sets how much the sandbox may write.
func (h *Host) limitDisk(handle *Handle) error {
	if handle.DiskBytes == 0 {
		return h.pool.SetLimit(handle.files(), 0)
	}
	return h.pool.SetLimit(handle.files(), handle.DiskBytes+handle.heldBytes())
}

func (handle *Handle) heldBytes() int64 {
	var sum int64
	for _, bytes := range handle.Held {
		sum += bytes
	}
	return sum
}

// hold raises the limit of a sandbox by what its new snapshot keeps.
func (h *Host) hold(handle *Handle, s *Snapshot) {
	charged, counted := h.pool.Usage(handle.files())
	if !counted || handle.DiskBytes == 0 {
		return
	}
	h.forgetHeld(handle)
	if more := charged - handle.heldBytes(); more > 0 {
		if handle.Held == nil {
			handle.Held = map[string]int64{}
		}
		handle.Held[s.ID] = more
	}
	h.changeDiskLimit(handle)
}

// letGo lowers the limit of a sandbox when a snapshot of it is gone.
func (h *Host) letGo(id string) {
	defer h.locks.lock("sandbox " + id)()
	handle, err := h.load(id)
	if err != nil || !handle.exists() {
		return
	}
	if h.forgetHeld(handle) {
		h.changeDiskLimit(handle)
	}
}

// forgetHeld reports whether a snapshot has gone since.
func (h *Host) forgetHeld(handle *Handle) (hasChanged bool) {
	for id := range handle.Held {
		if s, err := h.loadSnapshot(id); s == nil && err == nil {
			delete(handle.Held, id)
			hasChanged = true
		}
	}
	return hasChanged
}

// changeDiskLimit saves the handle first: a limit that was not lowered in time is lowered at the next start.
func (h *Host) changeDiskLimit(handle *Handle) {
	err := h.save(handle)
	if err == nil {
		err = h.limitDisk(handle)
	}
	if err != nil {
		h.log.Printf("%s: the limit on its disk stays as it was: %v", handle.ID, err)
	}
}
