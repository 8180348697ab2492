// Package files does envd's file operations. Its functions use the identity of the calling thread; callers
// wrap them in account.User.As.
package files

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
)

const (
	typeFile      = "FILE_TYPE_FILE"
	typeDirectory = "FILE_TYPE_DIRECTORY"
	// directorySize is one block. Some file systems report the number of names instead, or 0.
	directorySize = 4096
)

// Entry is envd's EntryInfo.
type Entry struct {
	Name          string            `json:"name,omitempty"`
	Type          string            `json:"type,omitempty"`
	Path          string            `json:"path,omitempty"`
	Size          connect.Int64     `json:"size,omitempty"`
	Mode          uint32            `json:"mode,omitempty"`
	Permissions   string            `json:"permissions,omitempty"`
	Owner         string            `json:"owner,omitempty"`
	Group         string            `json:"group,omitempty"`
	ModifiedTime  time.Time         `json:"modifiedTime"`
	SymlinkTarget *string           `json:"symlinkTarget,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
}

// namer turns ids into names. It reads the account files once.
type namer struct{ users, groups map[int]string }

func newNamer() namer {
	return namer{account.Names("/etc/passwd"), account.Names("/etc/group")}
}

func nameOf(names map[int]string, id uint32) string {
	if name, ok := names[int(id)]; ok {
		return name
	}
	return strconv.Itoa(int(id))
}

// entryOf describes a path without following it. For a link, name, size and permissions are the link's own,
// and type and mode are the target's, as in envd.
func entryOf(name string, info os.FileInfo, n namer) Entry {
	entry := Entry{
		Name: path.Base(name), Path: name, Size: connect.Int64(info.Size()), Permissions: info.Mode().String(),
		ModifiedTime: info.ModTime().UTC(), Metadata: readMetadata(name),
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		entry.Owner, entry.Group = nameOf(n.users, stat.Uid), nameOf(n.groups, stat.Gid)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(name)
		if err != nil {
			target = name
		}
		entry.SymlinkTarget = &target
		if info, err = os.Stat(name); err != nil {
			return entry
		}
	}
	entry.Mode = uint32(info.Mode().Perm())
	switch {
	case info.IsDir():
		entry.Type = typeDirectory
		if entry.SymlinkTarget == nil && entry.Size < directorySize {
			entry.Size = directorySize
		}
	case info.Mode().IsRegular():
		entry.Type = typeFile
	}
	return entry
}

// Metadata is stored in extended attributes, under E2B's names.
const (
	metadataPrefix = "user.e2b."
	maxMetadata    = 64 << 10
)

// readMetadata is empty if there is none or it cannot be read.
func readMetadata(name string) map[string]string {
	list := make([]byte, maxMetadata)
	size, err := unix.Llistxattr(name, list)
	if err != nil || size == 0 {
		return nil
	}
	var metadata map[string]string
	for _, attribute := range strings.Split(string(list[:size]), "\x00") {
		if !strings.HasPrefix(attribute, metadataPrefix) {
			continue
		}
		value := make([]byte, maxMetadata)
		n, err := unix.Lgetxattr(name, attribute, value)
		if err != nil {
			continue
		}
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[strings.TrimPrefix(attribute, metadataPrefix)] = string(value[:n])
	}
	return metadata
}

// replaceMetadata gives the file exactly this metadata. No metadata is fine on a file system that cannot
// store any.
func replaceMetadata(fd int, metadata map[string]string) error {
	list := make([]byte, maxMetadata)
	size, err := unix.Flistxattr(fd, list)
	if err != nil {
		size = 0
	}
	for _, attribute := range strings.Split(string(list[:size]), "\x00") {
		if strings.HasPrefix(attribute, metadataPrefix) {
			if err := unix.Fremovexattr(fd, attribute); err != nil {
				return err
			}
		}
	}
	for key, value := range metadata {
		if err := unix.Fsetxattr(fd, metadataPrefix+key, []byte(value), 0); err != nil {
			return connect.Errorf(connect.AsError(err).Code, "metadata %.64q cannot be stored: %v", key, err)
		}
	}
	return nil
}
