package host

import (
	"os"
	"sync"

	"agentpod/native/internal/launch"
)

// sealedProgram is the runtime in memory. It follows the file: an upgrade of the package counts from the next start on.
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
	// The earlier copy is left to the garbage collector: a start on its way may still use it.
	p.file, err = launch.Seal(path)
	p.info = info
	return p.file, err
}
