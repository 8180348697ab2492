package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/host/processes"
	"agentpod/native/internal/host/spare"
	"agentpod/native/internal/host/statedir"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
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
type handles struct {
	home string
	// spare has directories for the records of new sandboxes.
	spare *spare.Directories
	// writing is held for writing while a record is overwritten, and for reading while one is read.
	writing sync.RWMutex
}

// RecordFile is the name of a sandbox's record in its directory.
const RecordFile = "handle.json"

func (h *handles) dir(id string) string { return filepath.Join(h.home, "sandboxes", id) }

// IDsOnDisk returns the ids of all sandboxes, also of those that are being created or destroyed. It needs no
// lock.
func (h *handles) IDsOnDisk() []string { return statedir.IDs(filepath.Join(h.home, "sandboxes")) }

// saveNew makes the directory of a sandbox with its record. It returns os.ErrExist if there is one, and
// leaves nothing behind if it fails.
func (h *handles) saveNew(handle *Handle) error {
	dir := h.dir(handle.ID)
	taken, err := h.spare.Take(dir, func(record string) error {
		return h.saveWith(handle, func(_ string, data []byte, mode os.FileMode) error { return h.overwrite(record, data, mode) })
	})
	if taken || err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err = h.save(handle); err != nil {
		h.removeDir(handle.ID)
	}
	return err
}

// removeDir removes the directory of a sandbox, or keeps it for another one.
func (h *handles) removeDir(id string) error {
	parent := filepath.Dir(h.dir(id))
	if h.spare.Keep(parent, id) {
		return nil
	}
	return safefs.RemoveTree(parent, id)
}

func (h *handles) save(handle *Handle) error { return h.saveWith(handle, h.overwrite) }

// saveSynced is save for "stopped", the state that has to survive a power cut.
func (h *handles) saveSynced(handle *Handle) error {
	return h.saveWith(handle, safefs.WriteFileSynced)
}

// block is how much the kernel writes at once: a podhost that is killed has written all of it or nothing.
const block = 4096

// overwrite writes into the file that is there, if both texts fit into a block. Replacing the file by another
// makes ext4 write its data at once, and it would happen twice in the life of a sandbox.
func (h *handles) overwrite(path string, data []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return safefs.WriteFile(path, data, mode)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > block || len(data) > block {
		return safefs.WriteFile(path, data, mode)
	}
	// Spaces after the text mean nothing in JSON, and hide the rest of a longer text.
	if left := int(info.Size()) - len(data); left > 0 {
		data = append(data, bytes.Repeat([]byte{' '}, left)...)
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	_, err = file.WriteAt(data, 0)
	return err
}

// read returns a record that is not being overwritten.
func (h *handles) read(id string) ([]byte, error) {
	h.writing.RLock()
	defer h.writing.RUnlock()
	return os.ReadFile(filepath.Join(h.dir(id), RecordFile))
}

func (h *handles) saveWith(handle *Handle, write func(string, []byte, os.FileMode) error) error {
	data, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	return write(filepath.Join(h.dir(handle.ID), RecordFile), data, 0o600)
}

// load returns nil for a sandbox that does not exist, or that has a directory and no handle yet.
func (h *handles) load(id string) (*Handle, error) {
	data, err := h.read(id)
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

func (h *handles) saveExit(id string, exit Exit) error {
	data, err := json.Marshal(exit)
	if err != nil {
		return err
	}
	return safefs.WriteFile(filepath.Join(h.dir(id), "exit.json"), data, 0o600)
}

func (h *handles) loadExit(id string) (exit Exit, there bool) {
	data, err := os.ReadFile(filepath.Join(h.dir(id), "exit.json"))
	return exit, err == nil && json.Unmarshal(data, &exit) == nil
}

// RunningPids returns the first processes of the running sandboxes in a state directory. It needs no podhost.
func RunningPids(home string) []int {
	h := &handles{home: home}
	var pids []int
	for _, id := range h.IDsOnDisk() {
		handle, err := h.load(id)
		if err == nil && handle != nil && handle.StartTime != 0 && processes.StartTime(handle.Pid) == handle.StartTime {
			pids = append(pids, handle.Pid)
		}
	}
	return pids
}

// damagedHandle is the reason of the error for a handle that cannot be read. A power cut can damage the
// handle of a running sandbox.
const damagedHandle = "sandbox.handle"

// existingOrReconstructed is existing, but it reconstructs a damaged handle from the sandbox's files. Owner
// and root are then unknown. The state is "stopping", because processes of the sandbox that may still run
// have to be ended first.
func (s *Sandboxes) existingOrReconstructed(id string) (*Handle, error) {
	handle, err := s.existing(id)
	var damage *hostproto.Error
	if !errors.As(err, &damage) || damage.Reason != damagedHandle {
		return handle, err
	}
	handle = &Handle{ID: id, State: stateStopping, CreatedMs: time.Now().UnixMilli(), Unknown: true,
		Limits: map[string]cgroup.Level{}, Root: hostproto.Root{Kind: "host"}}
	if _, plain := os.Lstat(filepath.Join(s.dir(id), "upper")); plain != nil {
		handle.Volume = true
		there, unreachable := s.Pool.Has(pool.Entry{Area: pool.Sandboxes, ID: id, IsVolume: true})
		if unreachable != nil {
			return nil, unreachable
		}
		if !there {
			return nil, err
		}
	}
	s.mu.Lock()
	if l := s.live[id]; l != nil && l.group != id {
		handle.Shell = l.group
	}
	s.mu.Unlock()
	s.Log.Printf("%s: its handle is damaged and was reconstructed", id)
	return handle, nil
}
