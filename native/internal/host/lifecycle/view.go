package lifecycle

import (
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/netns"
)

// view is the answer to inspect, and an entry of a list.
type view struct {
	ID         string                  `json:"id,omitempty"`
	State      string                  `json:"state"`
	Owner      string                  `json:"owner"`
	Pid        int                     `json:"pid"`
	StartTime  uint64                  `json:"startTime"`
	Socket     string                  `json:"socket"`
	Out        string                  `json:"out"`
	Network    netns.Level             `json:"network"`
	DeadlineMs int64                   `json:"deadlineMs"`
	OOMKilled  bool                    `json:"oomKilled"`
	Expired    bool                    `json:"expired"`
	Limits     map[string]cgroup.Level `json:"limits"`
	IDs        IDView                  `json:"ids"`
	Runtime    boot.Runtime            `json:"runtime"`
	// SavedBytes is the size of its memory on the disk, if it is paused to disk.
	SavedBytes int64 `json:"savedBytes,omitempty"`
}

// unknownView is the view of a sandbox of which only the state is known.
func unknownView(state string) view {
	return view{State: state, Limits: map[string]cgroup.Level{}, Network: netns.Unavailable("%s", notRunning)}
}

// Inspect returns a sandbox's record, and whether its process runs. A sandbox that is being created or
// destroyed is absent. It needs no lock.
func (s *Sandboxes) Inspect(id string) (any, error) { return s.inspect(id) }

func (s *Sandboxes) inspect(id string) (view, error) {
	handle, err := s.load(id)
	if err != nil {
		return view{}, err
	}
	if !handle.exists() {
		return unknownView("absent"), nil
	}
	v := view{State: handle.State, Owner: handle.Owner, Pid: handle.Pid, StartTime: handle.StartTime, Socket: s.runOf(handle).Socket,
		DeadlineMs: handle.DeadlineMs, Limits: handle.Limits, IDs: s.idsOf(handle), Runtime: handle.Runtime}
	v.Out, v.Network = s.egress(handle)
	switch {
	case handle.State == stateSaved || handle.State == stateRestoring:
		v.State, v.SavedBytes = statePaused, handle.Saved.Bytes
	case handle.State == stateStopped || handle.State == stateStarting:
		v.State, v.Expired = stateStopped, handle.Expired
	case !s.isAlive(id):
		exit, _ := s.loadExit(id)
		v.State, v.OOMKilled, v.Expired = "exited", exit.OOMKilled, exit.Expired
	case handle.State == stateSaving && handle.WasPaused:
		v.State = statePaused
	case handle.State == stateStopping || handle.State == stateSaving:
		v.State = stateRunning
	}
	if (v.State == stateStopped || v.State == "exited" || v.SavedBytes > 0) && s.hasLostFiles(handle) {
		v.State = "absent"
	}
	return v, nil
}

// List returns a page of the sandboxes whose ids sort after the given one. It needs no lock.
func (s *Sandboxes) List(after string) any {
	sandboxes, next := []view{}, ""
	for _, id := range s.IDsOnDisk() {
		if id <= after {
			continue
		}
		if len(sandboxes) == hostproto.PageLength {
			next = sandboxes[hostproto.PageLength-1].ID
			break
		}
		v, err := s.inspect(id)
		if err != nil {
			v = unknownView("exited")
		}
		// A sandbox whose files are lost is listed, because its owner has to destroy the rest of it.
		if v.ID = id; v.State != "absent" || v.Owner != "" {
			sandboxes = append(sandboxes, v)
		}
	}
	return map[string]any{"sandboxes": sandboxes, "next": next}
}
