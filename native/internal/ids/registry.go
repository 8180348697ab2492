package ids

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// registryDir is where every podhost of this machine claims ranges. The claims are for processes, and like
// processes they do not survive a reboot.
const registryDir = "/run/agentpod/ids"

// A registry holds the claims of all state directories, one symbolic link for each range: its name is the
// first id, its target the state directory. Creating a link is atomic and fails if it exists. A podhost that
// holds the lock of a state directory may make and remove that directory's claims.
type registry struct {
	dir, home string
}

func openRegistry(dir, home string) (*registry, error) {
	return &registry{dir, home}, os.MkdirAll(dir, 0o700)
}

func (r *registry) path(base int) string { return filepath.Join(r.dir, strconv.Itoa(base)) }

// claim returns false for a range that is claimed already.
func (r *registry) claim(base int) (bool, error) {
	err := os.Symlink(r.home, r.path(base))
	if os.IsNotExist(err) {
		// Another program has removed the directory.
		if err = os.MkdirAll(r.dir, 0o700); err == nil {
			err = os.Symlink(r.home, r.path(base))
		}
	}
	if os.IsExist(err) {
		return false, nil
	}
	return err == nil, err
}

func (r *registry) drop(base int) error {
	if err := os.Remove(r.path(base)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (r *registry) isMine(base int) bool {
	home, err := os.Readlink(r.path(base))
	return err == nil && home == r.home
}

// isNew reports whether a podhost has just made the claim; a process that will run as it may be starting.
func (r *registry) isNew(base int) bool {
	info, err := os.Lstat(r.path(base))
	return err == nil && time.Since(info.ModTime()) < time.Minute
}

// claims returns the state directory of each range.
func (r *registry) claims() map[int]string {
	entries, _ := os.ReadDir(r.dir)
	claims := map[int]string{}
	for _, entry := range entries {
		base, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if home, err := os.Readlink(filepath.Join(r.dir, entry.Name())); err == nil {
			claims[base] = home
		}
	}
	return claims
}

// lock keeps two podhosts from giving up claims at the same time. Without it, only the podhost that serves a
// state directory changes that directory's claims.
func (r *registry) lock() (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(r.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// runningRanges are the ranges that a process of this machine runs as, by first id. A zombie runs nothing:
// its parent has only not collected its exit code yet.
func runningRanges() map[int]bool {
	running := map[int]bool{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		status, _ := os.ReadFile("/proc/" + entry.Name() + "/status")
		if strings.Contains(string(status), "\nState:\tZ") {
			continue
		}
		_, after, _ := strings.Cut(string(status), "\nUid:")
		line, _, _ := strings.Cut(after, "\n")
		for _, field := range strings.Fields(line) {
			if id, err := strconv.Atoi(field); err == nil {
				running[id-id%Count] = true
			}
		}
	}
	return running
}
