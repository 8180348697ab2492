package account

import (
	"path"
	"strings"

	"agentpod/native/internal/connect"
)

const maxPath = 4095

// Resolve makes a path absolute the way envd does: "~" is the user's home, and a relative path starts at
// base, or at the home if base is empty. It only changes text; the kernel follows links later, inside the
// sandbox.
func (u *User) Resolve(name, base string) (string, error) {
	if len(name) > maxPath {
		return "", connect.Errorf(connect.InvalidArgument, "the path is longer than %d bytes", maxPath)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", connect.Errorf(connect.InvalidArgument, "the path contains a NUL byte")
	}
	if base == "" {
		base = u.Home
	}
	switch {
	case name == "":
		return path.Clean(base), nil
	case name == "~" || strings.HasPrefix(name, "~/"):
		return path.Join(u.Home, name[1:]), nil
	case name[0] == '~':
		return "", connect.Errorf(connect.InvalidArgument, "%.64q is another user's home; only ~ is expanded", name)
	case name[0] != '/':
		return path.Join(base, name), nil
	}
	return path.Clean(name), nil
}
