package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentpod/native/internal/safefs"
)

// base returns the name of the current base tree. It looks for changes at most every five seconds.
func (b *Builder) base() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = true
	if b.checkedAs != "" && time.Since(b.checked) < 5*time.Second {
		return b.checkedAs, nil
	}
	if err := os.MkdirAll(filepath.Join(b.Home, "base"), 0o700); err != nil {
		return "", err
	}
	if err := b.findHidden(); err != nil {
		return "", fmt.Errorf("look for private files: %w", err)
	}
	name := "host-" + b.View.fingerprint(b.Shift()) + "-" + b.hidden.digest()
	if err := buildBase(filepath.Join(b.Home, "base", name), b.View, b.Shift(), b.hidden); err != nil {
		return "", err
	}
	b.checked, b.checkedAs = time.Now(), name
	return name, nil
}

// IsCurrent reports whether a root with this base tree is what a new sandbox gets. It looks for changes as
// base does.
func (b *Builder) IsCurrent(name string) bool {
	current, err := b.base()
	return err == nil && name == current
}

// IsKnownCurrent is IsCurrent without looking: the answer may be a minute old.
func (b *Builder) IsKnownCurrent(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checkedAs == "" || b.checkedAs == name
}

// findHidden uses the result of an earlier walk, if there is one: a walk takes a second, and Refresh follows
// unless the walk is recent. Without shifted ids nothing has to be hidden, because no user inside owns a file
// of the host.
func (b *Builder) findHidden() error {
	if b.hidden != nil || !b.Stage.Shifted() {
		return nil
	}
	if recent, found := b.recentWalk(); found {
		b.hidden, b.walked = recent.Hidden, recent.Began
		return b.hidden.save(b.hiddenFile())
	}
	if hidden, found := loadHidden(b.hiddenFile()); found {
		b.hidden = hidden
		return nil
	}
	walked, err := b.walk(func() (Hidden, error) { return FindHidden(b.View.Dirs) })
	if err != nil {
		return err
	}
	b.hidden, b.walked = walked.Hidden, walked.Began
	return b.hidden.save(b.hiddenFile())
}

func (b *Builder) hiddenFile() string { return filepath.Join(b.Home, "base", "hidden.json") }

// refreshEvery is how old a walk may be while sandboxes are made from it.
const refreshEvery = time.Minute

// IsStale reports whether sandboxes were made since a walk that is too old, or with a walk of an earlier
// podhost.
func (b *Builder) IsStale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Stage.Shifted() && b.hidden != nil && (b.walked.IsZero() || b.used && time.Since(b.walked) > refreshEvery)
}

// Refresh walks the host's directories, unless another podhost has just done so. Later sandboxes hide what
// the walk found.
func (b *Builder) Refresh(stop <-chan struct{}) error {
	walked, found := b.recentWalk()
	if !found {
		var err error
		if walked, err = b.walk(func() (Hidden, error) { return findHiddenQuietly(b.View.Dirs, stop) }); errors.Is(err, errStopped) {
			return nil
		} else if err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hidden, b.checkedAs, b.walked, b.used = walked.Hidden, "", walked.Began, false
	return b.hidden.save(b.hiddenFile())
}

// A walkRecord is what a podhost found in the directories of the machine. Every podhost would find the same,
// so podhosts share it.
type walkRecord struct {
	Began  time.Time
	Hidden Hidden
}

func (b *Builder) walk(find func() (Hidden, error)) (walkRecord, error) {
	record := walkRecord{Began: time.Now()}
	var err error
	if record.Hidden, err = find(); err != nil {
		return record, err
	}
	if b.Walks != "" {
		// Without the record the next podhost walks itself.
		if data, err := json.Marshal(record); err == nil && os.MkdirAll(b.Walks, 0o700) == nil {
			_ = safefs.WriteFile(b.walkFile(), data, 0o600)
		}
	}
	return record, nil
}

// recentWalk returns a walk that is recent enough to be used.
func (b *Builder) recentWalk() (walkRecord, bool) {
	var record walkRecord
	if b.Walks == "" {
		return record, false
	}
	data, err := os.ReadFile(b.walkFile())
	if err != nil || json.Unmarshal(data, &record) != nil || record.Hidden == nil {
		return record, false
	}
	age := time.Since(record.Began)
	return record, age >= 0 && age < refreshEvery
}

// walkFile is named after the directories, because podhosts may show different ones.
func (b *Builder) walkFile() string {
	sum := sha256.Sum256([]byte(strings.Join(b.View.Dirs, "\x00")))
	return filepath.Join(b.Walks, hex.EncodeToString(sum[:8])+".json")
}

// Prepare builds the base tree before the first sandbox, and removes those that no sandbox uses.
func (b *Builder) Prepare(used map[string]bool) error {
	current, err := b.base()
	if err != nil {
		return err
	}
	entries, _ := os.ReadDir(filepath.Join(b.Home, "base"))
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && name != current && !used[name] {
			if err := safefs.RemoveTree(filepath.Join(b.Home, "base"), name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Clear removes every base tree; the next `host` root builds its own. No root may be mounted meanwhile.
func (b *Builder) Clear() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checkedAs, b.hidden = "", nil
	dir := filepath.Join(b.Home, "base")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		b.forget(entry.Name())
		if err := safefs.RemoveTree(dir, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// forget drops the mounts of a base tree, so that it can be removed.
func (b *Builder) forget(name string) {
	dir := filepath.Join(b.Home, "base", name)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		b.Stage.Forget(filepath.Join(dir, entry.Name()))
	}
}
