package pool

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

const (
	// maxChanges bounds the paths of one answer. Beyond it the caller looks at all files, which takes about as
	// long as so many single ones.
	maxChanges = 2000
	// maxChangeBytes keeps the answer within a line of the protocol.
	maxChangeBytes = 128 << 10
	// maxCommands and changesTimeout bound the search: the sandbox may have changed millions of files
	// elsewhere.
	maxCommands    = 50_000
	changesTimeout = 2 * time.Second
)

// ErrUnknown: what changed cannot be told, or is too much to list.
var ErrUnknown = errors.New("what changed is not known")

// Changes lists what may differ below a directory of an entry since the entry began as a clone of from: paths
// relative to that directory. A listed directory stands for everything in it. A file that is not listed, nor
// in a listed directory, has the same content and mode as in from. It asks the file system, so nothing that a
// sandbox can write, such as times, hides a change. It takes as long as there are changes, however many files
// there are. `directory` is relative to the entry. The caller keeps both entries from being removed.
func (p *Pool) Changes(e, from Entry, directory string) ([]string, error) {
	if !p.Clones(from, e) || !p.Clones(e, from) {
		return nil, ErrUnknown
	}
	// A crash leaves this behind. It has no record, so the next podhost removes it.
	moment := Entry{Area: Snapshots, ID: "moment-" + e.ID, IsVolume: true}
	if err := p.Remove(moment); err != nil {
		return nil, err
	}
	if err := p.Clone(e, moment, 0); err != nil {
		return nil, err
	}
	defer p.Remove(moment)
	parent, err := openDir(p.Path(from))
	if err != nil {
		return nil, err
	}
	defer unix.Close(parent)
	volume, err := openDir(p.Path(moment))
	if err != nil {
		return nil, err
	}
	defer unix.Close(volume)
	found := changes{volume: volume, directory: directory, seen: map[string]bool{}, made: map[string]bool{}, deadline: time.Now().Add(changesTimeout)}
	if err := sendDifference(parent, volume, found.add); err != nil {
		return nil, err
	}
	if found.unknown {
		return nil, ErrUnknown
	}
	return found.list, nil
}

// changes collects the paths below a directory that the kernel's commands name.
type changes struct {
	volume    int
	directory string
	deadline  time.Time
	list      []string
	seen      map[string]bool
	made      map[string]bool
	bytes     int
	commands  int
	unknown   bool
}

// add returns false when the answer is known to be unknown.
func (c *changes) add(command sendCommand) bool {
	c.commands++
	c.unknown = c.commands > maxCommands || (c.commands%100 == 0 && time.Now().After(c.deadline)) || !c.note(command)
	return !c.unknown
}

func (c *changes) note(command sendCommand) bool {
	switch command.kind {
	case commandSubvolume, commandSnapshot, commandUtimes, commandChown, commandSetXattr, commandRemoveXattr:
		// A new file, a removed one and new content have commands of their own.
		return true
	}
	for _, path := range command.paths {
		// The directory itself, or one above it, was replaced.
		if path == c.directory || strings.HasPrefix(c.directory, path+"/") {
			return false
		}
		// The kernel names one of a file's names, and not the others. Every name of a new file is in a command.
		if isContent(command.kind) && !c.made[path] && isHardLinked(c.volume, path) {
			return false
		}
		if strings.HasPrefix(path, c.directory+"/") && !c.keep(path[len(c.directory)+1:]) {
			return false
		}
	}
	c.follow(command)
	return true
}

// follow remembers the names of new files: they are made under a temporary name, and then renamed.
func (c *changes) follow(command sendCommand) {
	switch {
	case command.kind == commandMakeFile && len(command.paths) == 1:
		c.made[command.paths[0]] = true
	case command.kind == commandRename && len(command.paths) == 2 && c.made[command.paths[0]]:
		c.made[command.paths[1]] = true
	}
}

func isContent(kind uint16) bool {
	switch kind {
	case commandWrite, commandClone, commandTruncate, commandChmod, commandUpdateExtent:
		return true
	}
	return false
}

// keep refuses names that JSON and a list of lines cannot carry.
func (c *changes) keep(path string) bool {
	if c.seen[path] {
		return true
	}
	if !utf8.ValidString(path) || strings.IndexFunc(path, unicode.IsControl) >= 0 {
		return false
	}
	c.seen[path] = true
	c.list = append(c.list, path)
	c.bytes += len(path) + 1
	return len(c.list) <= maxChanges && c.bytes <= maxChangeBytes
}

func openBeneath(dir int, path string) (int, error) {
	return safefs.OpenBeneath(dir, path, unix.O_PATH, 0)
}
