package boot

import (
	"os"
	"os/exec"
	"strings"
	"sync"

	"agentpod/native/internal/launch"
)

// Runtime is the OCI runtime in use. Path is empty if there is none.
type Runtime struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version"`
}

// FindRuntime asks the program at path for its version, or crun of PATH if path is empty.
func FindRuntime(path string) Runtime {
	if path == "" {
		path, _ = exec.LookPath("crun")
	}
	if path == "" {
		return Runtime{}
	}
	output, err := exec.Command(path, "--version").Output()
	if err != nil {
		return Runtime{}
	}
	first, _, _ := strings.Cut(string(output), "\n")
	name, version, _ := strings.Cut(first, " version ")
	return Runtime{Name: name, Path: path, Version: version}
}

// sealedProgram is a copy of the runtime in memory. The copy is renewed when the file changes, so an upgrade
// of the package takes effect at the next start.
type sealedProgram struct {
	mu   sync.Mutex
	info os.FileInfo
	file *os.File
}

func (p *sealedProgram) open(path string) (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if p.file != nil && os.SameFile(info, p.info) && info.ModTime() == p.info.ModTime() && info.Size() == p.info.Size() {
		return p.file, nil
	}
	// The garbage collector closes the earlier copy: a start that is under way may still use it.
	p.file, err = launch.Seal(path)
	p.info = info
	return p.file, err
}
