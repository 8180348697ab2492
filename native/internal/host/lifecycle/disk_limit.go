package lifecycle

// A file system with simple quotas charges a block to the sandbox that wrote it until the block is free. The
// blocks that a snapshot keeps would therefore count against its sandbox even after the sandbox has deleted
// the files. So the limit is raised by what the snapshots keep, as if the sandbox had been made from the last
// one.
//
// INVARIANT: a snapshot raises the limit by at most what it alone keeps, and only as long as it exists. A
// sandbox and its snapshots together therefore use at most the limit times one more than the number of
// snapshots.

// setDiskLimit limits how much the sandbox may write.
func (s *Sandboxes) setDiskLimit(handle *Handle) error {
	if handle.DiskBytes == 0 {
		return s.Pool.SetLimit(handle.files(), 0)
	}
	return s.Pool.SetLimit(handle.files(), handle.DiskBytes+handle.heldBytes())
}

// heldBytes is how much the sandbox's snapshots keep.
func (handle *Handle) heldBytes() int64 {
	var sum int64
	for _, bytes := range handle.Held {
		sum += bytes
	}
	return sum
}

// raiseDiskLimit raises the limit of a sandbox by what its new snapshot keeps.
func (s *Sandboxes) raiseDiskLimit(handle *Handle, snapshot string) {
	charged, counted := s.Pool.Usage(handle.files())
	if !counted || handle.DiskBytes == 0 {
		return
	}
	s.forgetRemovedSnapshots(handle)
	if more := charged - handle.heldBytes(); more > 0 {
		if handle.Held == nil {
			handle.Held = map[string]int64{}
		}
		handle.Held[snapshot] = more
	}
	s.changeDiskLimit(handle)
}

// LowerDiskLimit lowers the limit of a sandbox after a snapshot of it was removed. The caller does not hold
// its lock.
func (s *Sandboxes) LowerDiskLimit(id string) {
	defer s.lock(id)()
	handle, err := s.load(id)
	if err != nil || !handle.exists() {
		return
	}
	if s.forgetRemovedSnapshots(handle) {
		s.changeDiskLimit(handle)
	}
}

// forgetRemovedSnapshots reports whether a snapshot was removed since the handle was written.
func (s *Sandboxes) forgetRemovedSnapshots(handle *Handle) (hasChanged bool) {
	for id := range handle.Held {
		if snapshot, err := s.Snapshots.Load(id); snapshot == nil && err == nil {
			delete(handle.Held, id)
			hasChanged = true
		}
	}
	return hasChanged
}

// changeDiskLimit saves the handle first. If the limit cannot be lowered now, the next start lowers it.
func (s *Sandboxes) changeDiskLimit(handle *Handle) {
	err := s.save(handle)
	if err == nil {
		err = s.setDiskLimit(handle)
	}
	if err != nil {
		s.Log.Printf("%s: the disk limit could not be changed: %v", handle.ID, err)
	}
}
