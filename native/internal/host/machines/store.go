// Package machines keeps what virtual machines start from: the templates of booted machines, empty disks, and
// the disks of layers; and the memory of machines that run or were saved.
package machines

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"agentpod/native/internal/host/boot"
	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/keylock"
	"agentpod/native/internal/pool"
	"agentpod/native/internal/safefs"
	"agentpod/native/internal/vm/drivers"

	"golang.org/x/sys/unix"
)

// Options is what a Store works with.
type Options struct {
	Home string
	Pool *pool.Pool
	// Program runs the machines. Kernel is the directory that scripts/setup-qemu makes. Podd and Init are the
	// programs inside.
	Program          *drivers.Installed
	Kernel           string
	Podd, Init       string
	Rootless, Shifts bool
	Launcher         *boot.Launcher
	Locks            *keylock.Locks
	Log              *log.Logger
}

// A Store has the machines of one state directory. An entry of its area of the pool belongs to a run, to a
// snapshot, to a template or to an empty disk, as its name says.
type Store struct {
	Options
	mu sync.Mutex
	// digests are those of podd and of the initial program, once they are known.
	digests string
	// building are the names of what is being made; each channel is closed when that has ended.
	building map[string]chan struct{}
	// starting has an element for each machine that starts.
	starting chan struct{}
}

// New returns the store of a state directory.
func New(options Options) *Store {
	return &Store{Options: options, building: map[string]chan struct{}{}, starting: make(chan struct{}, runtime.NumCPU())}
}

// Starting waits until a machine may start, and returns how to say that it has. A machine that starts keeps a
// processor busy. If many started at a time, all of them would be slow, and none would answer in time.
func (s *Store) Starting() (started func()) {
	s.starting <- struct{}{}
	return func() { <-s.starting }
}

const (
	// data is the directory of an entry's files.
	data       = "data"
	memoryFile = "memory"
	stateFile  = "state"
	diskFile   = "disk"
	recordFile = "record.json"

	templatePrefix = "template"
	blankPrefix    = "blank"
	// mostTemplates is how many templates are kept. Each takes about as much as a booted machine uses.
	mostTemplates = 8
)

// programs are those of e2fsprogs that make disks.
const makeFS = "mkfs.ext4"

// Check returns the version of the program that runs machines, or why machines cannot run here.
func (s *Store) Check() (version string, err error) {
	if s.Rootless {
		return "", unavailable("virtual machines need root: an ordinary user cannot give each of them a user of its own",
			"run the server as root, or use `--isolation container`")
	}
	if version, err = s.Program.Version(); err != nil {
		return version, err
	}
	names := []string{s.Program.Kernel, "release"}
	for _, list := range s.Program.Lists {
		names = append(names, filepath.Join("modules", list))
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(s.Kernel, name)); s.Kernel == "" || err != nil {
			command := "agentpod provider setup qemu"
			if s.Program.Name != drivers.QEMU {
				command = fmt.Sprintf("AGENTPOD_VMM=%s %s", s.Program.Name, command)
			}
			return version, unavailable("there is no kernel for virtual machines with "+s.Program.Title, fmt.Sprintf("run `%s`, which gets one", command))
		}
	}
	if _, err := os.Stat(s.Init); s.Init == "" || err != nil {
		return version, unavailable("the program vminit is missing", "build AgentPod again, or install it again")
	}
	if !s.Shifts {
		return version, unavailable("virtual machines need idmapped mounts, which do not work here", "use Linux 5.19 or newer, and ext4, xfs or btrfs")
	}
	if _, err := lookPath(makeFS); err != nil {
		return version, unavailable(makeFS+" is not installed", "run `agentpod provider setup qemu`, or install e2fsprogs")
	}
	return version, nil
}

func unavailable(message, hint string) error {
	return hostproto.Errorf(hostproto.FailedPrecondition, "qemu.unavailable", "%s", message).WithHint(hint)
}

// Release names what can load a saved machine.
func (s *Store) Release(accel string) (string, error) {
	version, err := s.Check()
	return s.Program.Release(version, accel), err
}

// entry returns the entry of a name.
func (s *Store) entry(name string) (pool.Entry, error) { return s.Pool.Entry(pool.Machines, name) }

// make makes an empty entry and returns the directory for its files. It removes what was there.
func (s *Store) make(name string) (dir string, err error) {
	entry, err := s.entry(name)
	if err != nil {
		return "", err
	}
	if err := s.Remove(name); err != nil {
		return "", err
	}
	if err := s.Pool.Create(entry, 0); err != nil {
		return "", err
	}
	dir = filepath.Join(s.Pool.Path(entry), data)
	return dir, os.Mkdir(dir, 0o700)
}

// dir is where the files of an entry are.
func (s *Store) dir(name string) (string, error) {
	entry, err := s.entry(name)
	return filepath.Join(s.Pool.Path(entry), data), err
}

// Remove removes the entry of a run or a snapshot. It succeeds if there is none.
func (s *Store) Remove(name string) error {
	entry := s.Pool.Locate(pool.Machines, name)
	if err := s.Pool.Remove(entry); err != nil {
		return err
	}
	if entry.IsVolume {
		return nil
	}
	return safefs.RemoveTree(filepath.Join(s.Home, string(pool.Machines)), name)
}

// NewMemory gives a run a copy of a memory file, which shares its blocks until one of them is written.
func (s *Store) NewMemory(run, from string) (*os.File, error) {
	dir, err := s.make(run)
	if err != nil {
		return nil, err
	}
	return cloneFile(from, filepath.Join(dir, memoryFile))
}

// FlushMemory writes the memory of a run to its file. A copy has to write what is left.
func (s *Store) FlushMemory(run string) error {
	dir, err := s.dir(run)
	if err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(dir, memoryFile))
	if err != nil {
		return err
	}
	defer file.Close()
	flags := unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	return os.NewSyscallError("sync_file_range", unix.SyncFileRange(int(file.Fd()), 0, 0, flags))
}

// KeepMemory copies the memory of a run into the entry of a snapshot, and returns how much of it is in use.
// The machine stands still.
func (s *Store) KeepMemory(run, snapshot string) (bytes int64, err error) {
	from, err := s.dir(run)
	if err != nil {
		return 0, err
	}
	dir, err := s.make(snapshot)
	if err != nil {
		return 0, err
	}
	file, err := cloneFile(filepath.Join(from, memoryFile), filepath.Join(dir, memoryFile))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return usedBytes(file)
}

// Saved returns the memory file of a snapshot, or of a sandbox that is paused to disk.
func (s *Store) Saved(name string) (string, error) {
	dir, err := s.dir(name)
	return filepath.Join(dir, memoryFile), err
}

// KeepDisk keeps a copy of the disk of a sandbox that is paused to disk, beside its memory.
func (s *Store) KeepDisk(name, disk string) error {
	dir, err := s.dir(name)
	if err != nil {
		return err
	}
	return replaceFile(disk, filepath.Join(dir, diskFile))
}

// PutBackDisk gives the sandbox the copy of its disk, if there is one.
func (s *Store) PutBackDisk(name, disk string) error {
	dir, err := s.dir(name)
	if err != nil {
		return err
	}
	kept := filepath.Join(dir, diskFile)
	if _, err := os.Lstat(kept); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := replaceFile(kept, disk); err != nil {
		return err
	}
	return os.Remove(kept)
}

// Recover removes every entry that belongs to nothing: all but templates, empty disks, and what used names.
func (s *Store) Recover(used func(name string) bool) {
	for _, name := range s.names() {
		isKept := used(name)
		if !isKept && isShared(name) {
			dir, err := s.dir(name)
			_, missing := os.Stat(filepath.Join(dir, recordFile))
			isKept = err == nil && missing == nil
		}
		if isKept {
			continue
		}
		if err := s.Remove(name); err != nil {
			s.Log.Printf("machines: %s: %v", name, err)
		}
	}
}

// isShared reports whether an entry is for all machines.
func isShared(name string) bool {
	for _, prefix := range []string{templatePrefix, environmentPrefix, blankPrefix} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// names lists the entries.
func (s *Store) names() []string {
	if names := s.Pool.IDs(pool.Machines); names != nil {
		return names
	}
	entries, _ := os.ReadDir(filepath.Join(s.Home, string(pool.Machines)))
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Clear removes templates and empty disks.
func (s *Store) Clear() error {
	for _, name := range s.names() {
		if err := s.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// complete writes the record of an entry, which says that all of its files are there.
func complete(dir string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return safefs.WriteFileSynced(filepath.Join(dir, recordFile), text, 0o600)
}

// readRecord reports whether an entry is complete.
func readRecord(dir string, record any) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(text, record) == nil, nil
}

func readAll(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}
