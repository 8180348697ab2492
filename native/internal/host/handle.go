package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/ids"
	"agentpod/native/internal/netns"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/safefs"
)

// States of a handle. Each is written before it is acted on, and the next podhost makes it true: a start or
// removal that was cut off is undone or finished, and what is "paused" is frozen. A sandbox that has ended is
// still "running" in its handle; exit.json beside it says how it ended.
const (
	stateCreating   = "creating"
	stateRunning    = "running"
	statePaused     = "paused"
	stateStopping   = "stopping"
	stateStopped    = "stopped"
	stateStarting   = "starting"
	stateDestroying = "destroying"
)

// A Handle is what podhost writes down about a sandbox, before it acts: enough for the next podhost to find,
// watch and end it.
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
	// Shell is the blank shell that the sandbox runs in, if it does.
	Shell string `json:"shell,omitempty"`
	// UIDBase is the first of the ids that it runs as. Sandboxes of an earlier version have none written
	// down.
	UIDBase int `json:"uidBase,omitempty"`
	// SharedIDs is why other sandboxes run as the same ids, if they do.
	SharedIDs string `json:"sharedIds,omitempty"`
	// Network says how what runs inside gets out. Sandboxes of an earlier version have none.
	Network netns.Level `json:"network"`
	// Volume says that the files are a subvolume of the pool, and FromBytes how much of them came from a
	// snapshot.
	Volume    bool  `json:"volume,omitempty"`
	FromBytes int64 `json:"fromBytes,omitempty"`
	// DiskBytes is the limit on what is written, and Held what each snapshot keeps of it.
	DiskBytes int64            `json:"diskBytes,omitempty"`
	Held      map[string]int64 `json:"held,omitempty"`
	// Expired belongs to a sandbox that was stopped because its time was up.
	Expired bool `json:"expired,omitempty"`
	// Unknown: the handle was damaged, and owner and root are as the next start says.
	Unknown bool `json:"unknown,omitempty"`

	// ids is the range that begins there, while it is being started.
	ids *ids.Range
	// parent is the pipe by which podd knows that podhost runs. Until the handle is saved, podd ends when
	// podhost does, however podhost ends.
	parent *os.File
	// noDiskLimit is why the disk limit of this start does not hold.
	noDiskLimit string
}

// exists reports whether the sandbox is there for those who ask: not half made, and not on its way out.
func (handle *Handle) exists() bool {
	return handle != nil && handle.State != stateCreating && handle.State != stateDestroying
}

// group is the name of the sandbox's control groups, of its socket, and what the OCI runtime knows it by.
func (handle *Handle) group() string {
	if handle.Shell != "" {
		return handle.Shell
	}
	return handle.ID
}

// setIDs says what the sandbox runs as; nil for nothing.
func (handle *Handle) setIDs(r *ids.Range) {
	handle.ids, handle.UIDBase, handle.SharedIDs = r, 0, ""
	if r != nil {
		handle.UIDBase, handle.SharedIDs = r.Base, r.Shared
	}
}

// idView is what a sandbox runs as, for those who ask.
type idView struct {
	Base int `json:"base"`
	// Own: nobody else runs as any of them. Reason says why not.
	Own    bool   `json:"own"`
	Reason string `json:"reason,omitempty"`
}

func (h *Host) idsOf(handle *Handle) idView {
	if handle.UIDBase == 0 {
		return idView{Base: h.stored.Base, Reason: "the sandbox does not run, or was started by an earlier version"}
	}
	return idView{Base: handle.UIDBase, Own: handle.SharedIDs == "", Reason: handle.SharedIDs}
}

// rootIDs is how a root is mounted for what runs as r, in the user namespace user.
func (h *Host) rootIDs(r *ids.Range, user *os.File) rootfs.IDs {
	as := rootfs.IDs{Range: r.Range, Stored: r.Stored}
	if h.stage.Shifted() {
		as.Plain = user
	}
	return as
}

// runDir holds what belongs to one run of the sandbox: its bundle, podd's pid and log.
func (h *Host) runDir(handle *Handle) string {
	if handle.Shell != "" {
		return filepath.Join(h.home, "shells", handle.Shell)
	}
	return h.dir(handle.ID)
}

// socket is where podd listens.
func (h *Host) socket(handle *Handle) string {
	return filepath.Join(h.home, "run", "s", handle.group()+".sock")
}

// out is where podd takes connections of the egress process.
func (h *Host) out(handle *Handle) string {
	return filepath.Join(h.home, "run", "s", handle.group()+".out")
}

// hasWayOut reports whether podd was given a door and a place to hand connections over.
func (handle *Handle) hasWayOut() bool {
	return handle.Network.Level != "" && handle.Network.Level != netns.None
}

// wayOut is what is said of it: the path of the listener, if there is one, and the level.
func (h *Host) wayOut(handle *Handle) (path string, level netns.Level) {
	if handle.hasWayOut() {
		return h.out(handle), handle.Network
	}
	if handle.Network.Level == "" {
		return "", netns.NoWay("%s", noListener)
	}
	return "", handle.Network
}

const noListener = "the sandbox does not run, or was started by an earlier version"

// files is the sandbox's place in the pool.
func (handle *Handle) files() pool.Entry {
	return pool.Entry{Area: pool.Sandboxes, ID: handle.ID, IsVolume: handle.Volume}
}

// An Exit says how a sandbox ended; Known is false when nobody saw it.
type Exit struct {
	Known     bool   `json:"known"`
	Code      int    `json:"code"`
	Signal    string `json:"signal,omitempty"`
	OOMKilled bool   `json:"oomKilled"`
	Expired   bool   `json:"expired"`
	AtMs      int64  `json:"atMs"`
}

func (h *Host) dir(id string) string { return filepath.Join(h.home, "sandboxes", id) }

func (h *Host) save(handle *Handle) error { return h.saveWith(handle, safefs.WriteFile) }

// saveSynced is save for a state that has to be there after a power cut: "stopped", which is what survives
// one.
func (h *Host) saveSynced(handle *Handle) error { return h.saveWith(handle, safefs.WriteFileSynced) }

func (h *Host) saveWith(handle *Handle, write func(string, []byte, os.FileMode) error) error {
	data, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	return write(filepath.Join(h.dir(handle.ID), "handle.json"), data, 0o600)
}

// load returns nil for a sandbox that is not there, or that has a directory and no handle yet.
func (h *Host) load(id string) (*Handle, error) {
	data, err := os.ReadFile(filepath.Join(h.dir(id), "handle.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var handle Handle
	if err := json.Unmarshal(data, &handle); err != nil || handle.ID != id {
		return nil, hostproto.Errorf(hostproto.DataLoss, damagedHandle, "the handle of %s is damaged", id)
	}
	return &handle, nil
}

func (h *Host) saveExit(id string, exit Exit) error {
	data, err := json.Marshal(exit)
	if err != nil {
		return err
	}
	return safefs.WriteFile(filepath.Join(h.dir(id), "exit.json"), data, 0o600)
}

func (h *Host) loadExit(id string) (exit Exit, there bool) {
	data, err := os.ReadFile(filepath.Join(h.dir(id), "exit.json"))
	return exit, err == nil && json.Unmarshal(data, &exit) == nil
}

// Living returns the first processes of a home's sandboxes that run, before there is a Host.
func Living(home string) []int {
	h := &Host{home: home}
	var pids []int
	for _, id := range h.sandboxIDs() {
		handle, err := h.load(id)
		if err == nil && handle != nil && handle.StartTime != 0 && startTime(handle.Pid) == handle.StartTime {
			pids = append(pids, handle.Pid)
		}
	}
	return pids
}

// startTime tells one process from a later one with the same pid; 0 means there is no such process.
func startTime(pid int) uint64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything, so the fields are counted from the last parenthesis.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0
	}
	started, _ := strconv.ParseUint(fields[19], 10, 64)
	return started
}
