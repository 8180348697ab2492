package mount

import (
	"os"
	"path/filepath"
)

// Blank is a root with podd and mount points, and nothing else. No user inside owns it, so every shell can
// use it. points are directories, and files are empty files, to mount on.
func (s *Stage) Blank(podd string, points, files []string) (string, error) {
	dir := filepath.Join(s.dir, "blank")
	for _, point := range append([]string{NewRoot, "/.agentpod"}, points...) {
		if err := os.MkdirAll(filepath.Join(dir, point), 0o755); err != nil {
			return "", err
		}
	}
	for _, file := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, nil, 0o444); err != nil {
			return "", err
		}
	}
	if err := os.Link(podd, filepath.Join(dir, ".agentpod/podd")); err != nil && !os.IsExist(err) {
		return "", err
	}
	return dir, nil
}
