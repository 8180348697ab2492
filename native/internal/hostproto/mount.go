package hostproto

import (
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Kinds of a Mount.
const (
	// MountVolume: a volume of this podhost.
	MountVolume = "volume"
	// MountRoot: another root, or a part of it, read-only.
	MountRoot = "root"
	// MountTmpfs: an empty temporary file system.
	MountTmpfs = "tmpfs"
)

// A Mount is what a sandbox has at a path besides its root.
type Mount struct {
	Kind string `json:"kind"`
	// Path is absolute, without "." and "..".
	Path     string `json:"path"`
	Volume   string `json:"volume,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	Root     *Root  `json:"root,omitempty"`
	// From is the path in Root to mount, a directory or a file; all of it if empty.
	From string `json:"from,omitempty"`
	// SizeBytes bounds a temporary file system; 0 is the kernel's default.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// TakesOwner: a temporary file system has the owner and the mode of the directory that it covers.
	TakesOwner bool `json:"takesOwner,omitempty"`
}

// Roots returns the roots of the mounts that are roots.
func Roots(mounts []Mount) []Root {
	var roots []Root
	for _, m := range mounts {
		if m.Root != nil {
			roots = append(roots, *m.Root)
		}
	}
	return roots
}

var mountKindGrammar = regexp.MustCompile(`\A(volume|root|tmpfs)\z`)

// maxMountPath is the longest path of a mount, in bytes.
const maxMountPath = 1024

// reserved are directories of a sandbox that podhost mounts, or that podd needs.
var reserved = []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/etc", "/.agentpod"}

// buildMounts is where a build mounts what its steps read. It is inside a reserved directory, because it
// is no part of any image.
const buildMounts = "/.agentpod/build"

// isReserved returns the directory that a mount would take from the sandbox, or "". If directories are
// part of the root, nothing covers a mount in them.
func isReserved(at string, rootDirs []string) string {
	if isWithin(at, buildMounts) && at != buildMounts {
		return ""
	}
	for _, dir := range reserved {
		if !isWithin(at, dir) || contains(rootDirs, dir) && at != dir || len(rootDirs) > 0 && dir == "/etc" && at != dir {
			continue
		}
		return dir
	}
	return ""
}

// parseMounts reads the mounts of a sandbox. No path is inside another one: the order would decide what is
// seen.
func parseMounts(raw []byte, rootDirs []string) ([]Mount, *Error) {
	if raw == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil || len(items) > MaxMounts {
		return nil, Errorf(InvalidArgument, "request.invalid", "args.\"mounts\" is not a list of at most %d entries", MaxMounts)
	}
	var mounts []Mount
	for i, item := range items {
		m, err := parseMount("args.mounts["+strconv.Itoa(i)+"]", item, rootDirs)
		if err != nil {
			return nil, err
		}
		for _, other := range mounts {
			if isWithin(m.Path, other.Path) || isWithin(other.Path, m.Path) {
				return nil, Errorf(InvalidArgument, "mount.nested", "the mount at %s is inside the one at %s, or the reverse", m.Path, other.Path)
			}
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func parseMount(name string, raw []byte, rootDirs []string) (Mount, *Error) {
	o := parseObject(name, raw, []string{"kind", "path"}, []string{"volume", "readOnly", "root", "from", "sizeBytes", "takesOwner"})
	m := Mount{Kind: o.text("kind", mountKindGrammar), Path: o.text("path", pathGrammar), Volume: o.text("volume", idGrammar),
		ReadOnly: o.boolean("readOnly"), From: o.text("from", pathGrammar), SizeBytes: o.integer("sizeBytes", maxBytes),
		TakesOwner: o.boolean("takesOwner")}
	rootText, hasRoot := o.fields["root"]
	_, hasVolume := o.fields["volume"]
	if o.err == nil && (hasVolume != (m.Kind == MountVolume) || hasRoot != (m.Kind == MountRoot)) {
		o.fail("kind", "needs a volume or a root, as it says, and nothing else")
	}
	if o.err != nil {
		return m, o.err
	}
	if m.TakesOwner && m.Kind != MountTmpfs {
		o.fail("takesOwner", "is for temporary file systems")
		return m, o.err
	}
	if m.From != "" && (path.Clean(m.From) != m.From || len(m.From) > maxMountPath || m.Kind != MountRoot) {
		o.fail("from", "is no clean path in a root")
		return m, o.err
	}
	if path.Clean(m.Path) != m.Path || len(m.Path) > maxMountPath {
		o.fail("path", "has \".\" or \"..\" in it, or is longer than "+strconv.Itoa(maxMountPath)+" bytes")
		return m, o.err
	}
	if dir := isReserved(m.Path, rootDirs); dir != "" {
		return m, Errorf(InvalidArgument, "mount.reserved", "nothing can be mounted at %s: sandboxes need their own %s", m.Path, dir).
			WithHint("choose another path, such as /data")
	}
	if hasRoot {
		root, err := parseRoot(rootText)
		if err != nil {
			return m, err
		}
		if root.Kind != "layers" {
			return m, Errorf(Unsupported, "mount.root", "only a root of layers can be mounted into a sandbox, not one of kind %q", root.Kind)
		}
		m.Root = &root
	}
	return m, nil
}

// isWithin reports whether a path is dir or below it.
func isWithin(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func (o *object) boolean(key string) bool {
	raw, there := o.fields[key]
	if o.err != nil || !there {
		return false
	}
	if text := string(raw); text != "true" && text != "false" {
		o.fail(key, "is not true or false")
		return false
	}
	return string(raw) == "true"
}
