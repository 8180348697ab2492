package files

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
	"agentpod/native/internal/descriptor"
)

// Event is envd's FilesystemEvent. Name is relative to the watched directory.
type Event struct {
	Name  string `json:"name,omitempty"`
	Type  string `json:"type"`
	Entry *Entry `json:"entry,omitempty"`
}

const (
	watchMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	// maxWatched bounds the directories of one recursive watch.
	maxWatched = 8192
)

var eventTypes = []struct {
	mask uint32
	name string
}{
	{unix.IN_CREATE | unix.IN_MOVED_TO, "EVENT_TYPE_CREATE"},
	{unix.IN_MODIFY, "EVENT_TYPE_WRITE"},
	{unix.IN_DELETE, "EVENT_TYPE_REMOVE"},
	{unix.IN_MOVED_FROM, "EVENT_TYPE_RENAME"},
	{unix.IN_ATTRIB, "EVENT_TYPE_CHMOD"},
}

// Watch follows the changes below one directory.
type Watch struct {
	file    *os.File
	user    *account.User
	root    string
	deep    bool
	entries bool
	dirs    map[int32]string // watch descriptor to path relative to root
}

// WatchOptions choose what a watch covers and reports.
type WatchOptions struct {
	Recursive    bool
	IncludeEntry bool
}

// NewWatch starts to watch, as the user.
func NewWatch(user *account.User, dir string, options WatchOptions) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, connect.Errorf(connect.ResourceExhausted, "cannot create another watch: %v", err)
	}
	w := &Watch{
		file: os.NewFile(uintptr(fd), "inotify"), user: user, root: dir,
		deep: options.Recursive, entries: options.IncludeEntry, dirs: map[int32]string{},
	}
	err = user.As(func() error {
		if err := requireDirectory(dir); err != nil {
			return err
		}
		_, err := w.add("", nil)
		return err
	})
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the watch and any Next that waits.
func (w *Watch) Close() { w.file.Close() }

// add watches a directory, and in a deep watch those below it. The entries of a directory that has just
// appeared may be older than the watch, so they are reported through found.
func (w *Watch) add(relative string, found []Event) ([]Event, error) {
	if len(w.dirs) >= maxWatched {
		return found, connect.Errorf(connect.ResourceExhausted, "more than %d directories to watch", maxWatched)
	}
	full := filepath.Join(w.root, relative)
	var watch int
	err := descriptor.Control(w.file, func(fd int) (err error) {
		watch, err = unix.InotifyAddWatch(fd, full, watchMask)
		return err
	})
	if err != nil {
		return found, &os.PathError{Op: "watch", Path: full, Err: err}
	}
	w.dirs[int32(watch)] = relative
	if !w.deep {
		return found, nil
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return found, nil
	}
	for _, entry := range entries {
		name := path.Join(relative, entry.Name())
		if found != nil {
			found = append(found, Event{Name: name, Type: eventTypes[0].name})
		}
		if !entry.IsDir() {
			continue
		}
		if found, err = w.add(name, found); err != nil && !isGone(err) {
			return found, err
		}
	}
	return found, nil
}

func isGone(err error) bool {
	return os.IsNotExist(err) || os.IsPermission(err)
}

// Next waits for changes. An error means that the watch has ended.
func (w *Watch) Next() ([]Event, error) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return nil, err
		}
		events, err := w.parse(buffer[:n])
		if err != nil || len(events) > 0 {
			return events, err
		}
	}
}

func (w *Watch) parse(data []byte) ([]Event, error) {
	var events []Event
	for len(data) >= unix.SizeofInotifyEvent {
		descriptor := int32(binary.LittleEndian.Uint32(data))
		mask := binary.LittleEndian.Uint32(data[4:])
		size := int(binary.LittleEndian.Uint32(data[12:]))
		data = data[unix.SizeofInotifyEvent:]
		if size > len(data) {
			return nil, fs.ErrInvalid
		}
		name := strings.TrimRight(string(data[:size]), "\x00")
		data = data[size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			return nil, connect.Errorf(connect.DataLoss, "too many changes at once: some were lost")
		}
		more, err := w.translate(descriptor, mask, name)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

// translate turns one kernel event into envd's.
func (w *Watch) translate(descriptor int32, mask uint32, name string) ([]Event, error) {
	relative, known := w.dirs[descriptor]
	if !known {
		return nil, nil
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(w.dirs, descriptor)
		return nil, nil
	}
	if mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 {
		return w.lost(relative, mask)
	}
	relative = path.Join(relative, name)
	for _, kind := range eventTypes {
		if mask&kind.mask == 0 {
			continue
		}
		events := []Event{{Name: relative, Type: kind.name}}
		if w.deep && mask&unix.IN_ISDIR != 0 && kind.mask&unix.IN_CREATE != 0 {
			err := w.user.As(func() (err error) {
				events, err = w.add(relative, events)
				return err
			})
			if err != nil && !isGone(err) {
				return nil, err
			}
		}
		return w.describe(events), nil
	}
	return nil, nil
}

// lost handles a watched directory that was removed. Its parent's watch reports it. The end of the root is
// the end of the watch.
func (w *Watch) lost(relative string, mask uint32) ([]Event, error) {
	if relative != "" {
		return nil, nil
	}
	kind := "EVENT_TYPE_REMOVE"
	if mask&unix.IN_MOVE_SELF != 0 {
		kind = "EVENT_TYPE_RENAME"
	}
	return []Event{{Name: path.Base(w.root), Type: kind}}, nil
}

// describe adds details, if the client asked for them, about each path that still exists.
func (w *Watch) describe(events []Event) []Event {
	if !w.entries {
		return events
	}
	w.user.As(func() error {
		for i := range events {
			if entry, err := Stat(filepath.Join(w.root, events[i].Name)); err == nil {
				events[i].Entry = &entry
			}
		}
		return nil
	})
	return events
}
