// Package statedir reads the directories below podhost's state directory that are named by ids.
package statedir

import (
	"os"

	"agentpod/native/internal/hostproto"
)

// IDs returns the names of the directories in dir that are ids, sorted.
func IDs(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && hostproto.IsID(entry.Name()) {
			ids = append(ids, entry.Name())
		}
	}
	return ids
}
