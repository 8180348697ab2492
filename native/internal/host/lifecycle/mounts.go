package lifecycle

import (
	"strings"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/rootfs"
)

// mountInside mounts the volumes and other roots of a sandbox in its root. The handle names them already.
func (s *Sandboxes) mountInside(path string, plan rootfs.Plan, args hostproto.CreateSandbox) error {
	if len(args.Mounts) == 0 {
		return nil
	}
	var mounts []rootfs.Mount
	var fresh []string
	for _, m := range args.Mounts {
		found := rootfs.Mount{Path: m.Path, ReadOnly: m.ReadOnly, Root: m.Root, From: m.From,
			IsTmpfs: m.Kind == hostproto.MountTmpfs, SizeBytes: m.SizeBytes, TakesOwner: m.TakesOwner}
		var err error
		switch {
		case found.IsTmpfs:
		case m.Root != nil:
			found.Over, err = s.Snapshots.Uppers(*m.Root)
		default:
			found.Data, found.IsNew, err = s.Volumes.Open(m.Volume, args.Owner)
		}
		if err != nil {
			return err
		}
		if found.IsNew {
			fresh = append(fresh, m.Volume)
		}
		mounts = append(mounts, found)
	}
	if err := s.Builder.MountInside(path, plan, mounts); err != nil {
		return err
	}
	for _, id := range fresh {
		if err := s.Volumes.SetUsed(id); err != nil {
			return err
		}
	}
	return nil
}

// UserOfVolume returns the id of a sandbox (in any state) that mounts a volume, or "". It needs no lock.
func (s *Sandboxes) UserOfVolume(id string) string {
	for _, sandbox := range s.IDsOnDisk() {
		handle, err := s.load(sandbox)
		if err != nil || handle == nil {
			continue
		}
		for _, m := range handle.Mounts {
			if m.Volume == id {
				return sandbox
			}
		}
	}
	return ""
}

// hasMountAt reports whether something is mounted at a directory, in it, or above it.
func (handle *Handle) hasMountAt(dir string) bool {
	for _, m := range handle.Mounts {
		if strings.HasPrefix(m.Path+"/", dir+"/") || strings.HasPrefix(dir+"/", m.Path+"/") {
			return true
		}
	}
	return false
}
