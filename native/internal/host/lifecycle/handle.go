package lifecycle

import (
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/host/machines"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/memoryimage"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/pool"
)

// States of a handle. podhost writes a state before it acts on it, and the next podhost makes it true: it
// undoes or finishes a start or removal that was interrupted, and freezes a sandbox that is "paused". A
// sandbox that has ended is still "running" in its handle; exit.json beside it says how it ended.
const (
	stateCreating   = "creating"
	stateRunning    = "running"
	statePaused     = "paused"
	stateStopping   = "stopping"
	stateStopped    = "stopped"
	stateStarting   = "starting"
	stateDestroying = "destroying"
	// A sandbox that is paused to disk has no processes: their memory is in the directory memoryDir beside its
	// handle. Until "saved" is written, they are as they were. They run again as soon as "restoring" becomes
	// "running"; before that, the sandbox goes back to "saved".
	stateSaving    = "saving"
	stateSaved     = "saved"
	stateRestoring = "restoring"
)

// A Handle is podhost's record of a sandbox. It is written before podhost acts, and has enough for the next
// podhost to find, watch and end the sandbox.
type Handle struct {
	ID         string                  `json:"id"`
	State      string                  `json:"state"`
	Owner      string                  `json:"owner"`
	Root       hostproto.Root          `json:"root"`
	Base       string                  `json:"base,omitempty"`
	Pid        int                     `json:"pid"`
	StartTime  uint64                  `json:"startTime"`
	DeadlineMs int64                   `json:"deadlineMs"`
	WhenOver   string                  `json:"whenOver,omitempty"`
	CreatedMs  int64                   `json:"createdMs"`
	Limits     map[string]cgroup.Level `json:"limits"`
	Env        map[string]string       `json:"env,omitempty"`
	// Runtime is what it runs on.
	Runtime boot.Runtime `json:"runtime,omitempty"`
	// Docker: root inside may run a container engine.
	Docker bool `json:"docker,omitempty"`
	// Shell is the name of the blank shell that the sandbox runs in. Some sandboxes of an earlier version run
	// in none.
	Shell string `json:"shell,omitempty"`
	// UIDBase is the first of the ids that it runs as. Sandboxes of an earlier version have none.
	UIDBase int `json:"uidBase,omitempty"`
	// SharedIDs is the reason why other sandboxes run as the same ids, if they do.
	SharedIDs string `json:"sharedIds,omitempty"`
	// Network says how connections leave the sandbox. Sandboxes of an earlier version have none.
	Network netns.Level `json:"network"`
	// Volume: the files are a subvolume of the pool. FromBytes is how much of them came from a snapshot, and
	// From is the snapshot. Sandboxes of an earlier version have none.
	Volume    bool   `json:"volume,omitempty"`
	From      string `json:"from,omitempty"`
	FromBytes int64  `json:"fromBytes,omitempty"`
	// DiskBytes is the limit on disk usage. Held is how much of the usage each snapshot keeps.
	DiskBytes int64            `json:"diskBytes,omitempty"`
	Held      map[string]int64 `json:"held,omitempty"`
	// Mounts are what it mounts besides its root.
	Mounts []hostproto.Mount `json:"mounts,omitempty"`
	// Machine is the virtual machine that it runs in.
	Machine *machineRecord `json:"machine,omitempty"`
	// Saved is the memory of a sandbox that is saved or being restored. WasPaused: it was paused before it was
	// saved.
	Saved     *memoryimage.Image `json:"saved,omitempty"`
	WasPaused bool               `json:"wasPaused,omitempty"`
	// BootID is the boot id of a gVisor sandbox or a machine, which it keeps when it is saved.
	BootID string `json:"bootId,omitempty"`
	// Expired: the sandbox was stopped because its deadline passed.
	Expired bool `json:"expired,omitempty"`
	// Unknown: the handle was damaged. The next start sets its owner and root.
	Unknown bool `json:"unknown,omitempty"`

	// run is the podd that this podhost started for the sandbox.
	run *boot.Run
	// noDiskLimit is why the disk limit could not be set at this start.
	noDiskLimit string
}

// machineRecord says what a virtual machine is like.
type machineRecord struct {
	machines.Shape
	Accel string
	// Levels are the limits that hold inside.
	Levels map[string]cgroup.Level
}

// exists reports whether the sandbox exists for clients: it is created completely, and not being destroyed.
func (handle *Handle) exists() bool {
	return handle != nil && handle.State != stateCreating && handle.State != stateDestroying
}

// group is the name of the sandbox's run: of its control groups and its sockets.
func (handle *Handle) group() string {
	if handle.Shell != "" {
		return handle.Shell
	}
	return handle.ID
}

// files is the sandbox's entry in the pool.
func (handle *Handle) files() pool.Entry {
	return pool.Entry{Area: pool.Sandboxes, ID: handle.ID, IsVolume: handle.Volume}
}

// runOf returns the run that the handle describes.
func (s *Sandboxes) runOf(handle *Handle) *boot.Run {
	if handle.run != nil {
		return handle.run
	}
	run := boot.NewRun(s.Home, handle.group(), handle.Runtime)
	run.Pid, run.StartTime, run.Network, run.UIDBase = handle.Pid, handle.StartTime, handle.Network, handle.UIDBase
	return run
}

// setRun records what podhost has to know about a run after it restarts.
func (handle *Handle) setRun(run *boot.Run) {
	handle.run = run
	handle.Pid, handle.StartTime, handle.Network = run.Pid, run.StartTime, run.Network
	handle.UIDBase, handle.SharedIDs, handle.BootID = run.UIDBase, "", run.BootID
	if run.IDs != nil {
		handle.SharedIDs = run.IDs.Shared
	}
}

// clearIDs records that the ids of an ended run are free again.
func (handle *Handle) clearIDs() { handle.UIDBase, handle.SharedIDs = 0, "" }

// IDView says which ids a sandbox runs as.
type IDView struct {
	Base int `json:"base"`
	// Own: no other sandbox runs as any of them. Reason says why not.
	Own    bool   `json:"own"`
	Reason string `json:"reason,omitempty"`
}

// notRunning is why a sandbox has no egress and no ids.
const notRunning = "the sandbox does not run, or was started by an earlier version"

func (s *Sandboxes) idsOf(handle *Handle) IDView {
	if handle.UIDBase == 0 {
		return IDView{Base: s.Stored.Base, Reason: notRunning}
	}
	return IDView{Base: handle.UIDBase, Own: handle.SharedIDs == "", Reason: handle.SharedIDs}
}

// egress returns the socket for the egress process, if there is one, and the level of the network.
func (s *Sandboxes) egress(handle *Handle) (path string, level netns.Level) {
	if boot.HasEgress(handle.Network) {
		return s.runOf(handle).Out, handle.Network
	}
	if handle.Network.Level == "" {
		return "", netns.Unavailable("%s", notRunning)
	}
	return "", handle.Network
}
