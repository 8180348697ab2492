package lifecycle

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/host/statedir"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"
)

// An Exit says how a sandbox ended. Known is false if no podhost saw it end.
type Exit struct {
	Known     bool   `json:"known"`
	Code      int    `json:"code"`
	Signal    string `json:"signal,omitempty"`
	OOMKilled bool   `json:"oomKilled"`
	Expired   bool   `json:"expired"`
	AtMs      int64  `json:"atMs"`
}

// handles reads and writes the records of sandboxes in <home>/sandboxes.
type handles struct{ home string }

func (h handles) dir(id string) string { return filepath.Join(h.home, "sandboxes", id) }

// IDsOnDisk returns the ids of all sandboxes, also of those that are being created or destroyed. It needs no
// lock.
func (h handles) IDsOnDisk() []string { return statedir.IDs(filepath.Join(h.home, "sandboxes")) }

func (h handles) save(handle *Handle) error { return h.saveWith(handle, safefs.WriteFile) }

// saveSynced is save for "stopped", the state that has to survive a power cut.
func (h handles) saveSynced(handle *Handle) error { return h.saveWith(handle, safefs.WriteFileSynced) }

func (h handles) saveWith(handle *Handle, write func(string, []byte, os.FileMode) error) error {
	data, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	return write(filepath.Join(h.dir(handle.ID), "handle.json"), data, 0o600)
}

// load returns nil for a sandbox that does not exist, or that has a directory and no handle yet.
func (h handles) load(id string) (*Handle, error) {
	data, err := os.ReadFile(filepath.Join(h.dir(id), "handle.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var handle Handle
	if err := json.Unmarshal(data, &handle); err != nil || handle.ID != id {
		return nil, hostproto.Errorf(hostproto.DataLoss, damagedHandle, "the handle of sandbox %s is damaged", id)
	}
	return &handle, nil
}

func (h handles) saveExit(id string, exit Exit) error {
	data, err := json.Marshal(exit)
	if err != nil {
		return err
	}
	return safefs.WriteFile(filepath.Join(h.dir(id), "exit.json"), data, 0o600)
}

func (h handles) loadExit(id string) (exit Exit, there bool) {
	data, err := os.ReadFile(filepath.Join(h.dir(id), "exit.json"))
	return exit, err == nil && json.Unmarshal(data, &exit) == nil
}

// RunningPids returns the first processes of the running sandboxes in a state directory. It needs no podhost.
func RunningPids(home string) []int {
	h := handles{home}
	var pids []int
	for _, id := range h.IDsOnDisk() {
		handle, err := h.load(id)
		if err == nil && handle != nil && handle.StartTime != 0 && processes.StartTime(handle.Pid) == handle.StartTime {
			pids = append(pids, handle.Pid)
		}
	}
	return pids
}
