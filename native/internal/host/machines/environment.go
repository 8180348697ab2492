package machines

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

const (
	environmentPrefix = "environ"
	// mostEnvironments is how many environments are kept. Each takes what its machine has written.
	mostEnvironments = 16
	// buildWait is how long to wait for a machine that becomes an environment. A machine that does without one
	// takes about as long.
	buildWait = 10 * time.Second
)

// An Environment is a machine in the root of a sandbox in which nothing has run yet. A sandbox of the same
// kind continues from a copy, which saves it from mounting its disks.
type Environment struct {
	Template
	// Disk is the disk of the sandbox, which every copy gets a copy of.
	Disk string
	// Levels are the limits that hold inside.
	Levels map[string]cgroup.Level
}

type environmentRecord struct {
	Accel, Marker string
	Levels        map[string]cgroup.Level
}

// EnvironmentName has a digest of everything that an environment depends on: the template, what the machine
// became, and its disks. A disk that was made again is another one, even with the same files: the memory of a
// machine has parts of it.
func EnvironmentName(template *Template, sandbox order.Sandbox, disks []*os.File) (string, error) {
	text, err := json.Marshal(sandbox)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n", template.State, template.Marker, text)
	for _, disk := range disks {
		var stat unix.Stat_t
		if err := unix.Fstat(int(disk.Fd()), &stat); err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%d %d %d %d\n", stat.Dev, stat.Ino, stat.Size, stat.Mtim.Nano())
	}
	return environmentPrefix + hex.EncodeToString(sum.Sum(nil))[:13], nil
}

// Environment returns the environment of a name, or nil.
func (s *Store) Environment(name string, template *Template) (*Environment, error) {
	dir, err := s.dir(name)
	if err != nil {
		return nil, err
	}
	var record environmentRecord
	if there, err := readRecord(dir, &record); err != nil || !there {
		return nil, err
	}
	now := time.Now()
	os.Chtimes(filepath.Join(dir, recordFile), now, now)
	return &Environment{Template: Template{Shape: template.Shape, Accel: record.Accel, Marker: record.Marker,
		Memory: filepath.Join(dir, memoryFile), State: filepath.Join(dir, stateFile)}, Disk: filepath.Join(dir, diskFile), Levels: record.Levels}, nil
}

// CopyDisk gives a sandbox a copy of a disk.
func CopyDisk(from, to string) error {
	file, err := cloneFile(from, to)
	if err != nil {
		return err
	}
	return file.Close()
}

// KeepEnvironment makes an environment of a run that stands still. save writes its state to a file and
// returns the marker of its link. It does nothing if another run is becoming the same environment.
func (s *Store) KeepEnvironment(name, run, disk string, levels map[string]cgroup.Level, accel string, save func(*os.File) (string, error)) error {
	dir, err := s.make(name)
	if err != nil {
		return err
	}
	err = s.fillEnvironment(dir, run, disk, levels, accel, save)
	if err != nil {
		if undo := s.Remove(name); undo != nil {
			s.Log.Printf("machines: %s: %v", name, undo)
		}
	}
	s.prune(environmentPrefix, name, mostEnvironments)
	return err
}

func (s *Store) fillEnvironment(dir, run, disk string, levels map[string]cgroup.Level, accel string, save func(*os.File) (string, error)) error {
	state, err := os.OpenFile(filepath.Join(dir, stateFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer state.Close()
	marker, err := save(state)
	if err != nil {
		return err
	}
	from, err := s.dir(run)
	if err != nil {
		return err
	}
	for source, target := range map[string]string{filepath.Join(from, memoryFile): memoryFile, disk: diskFile} {
		if err := CopyDisk(source, filepath.Join(dir, target)); err != nil {
			return err
		}
	}
	return complete(dir, environmentRecord{accel, marker, levels})
}

// TryBuild returns how to end the making of something of this name, if nobody else makes it. Otherwise it
// waits until that has ended, for a while, and returns nil.
func (s *Store) TryBuild(name string) (done func()) {
	s.mu.Lock()
	other, isBuilt := s.building[name]
	if !isBuilt {
		ended := make(chan struct{})
		s.building[name] = ended
		s.mu.Unlock()
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.building, name)
			close(ended)
		}
	}
	s.mu.Unlock()
	select {
	case <-other:
	case <-time.After(buildWait):
	}
	return nil
}
