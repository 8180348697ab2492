package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// upper makes the upper and work directory for the mount at covered, unless they exist. The owner of the
// upper is that of the merged root: the sandbox's uid and gid, or that of the topmost snapshot. The
// directories are named after the path and not numbered: when the sandbox starts again, or its files are
// copied to another one, the host may show other directories.
func (plan Plan) upper(at *os.File, covered string, uid, gid int, below *lowers) (upper, work string, err error) {
	dir, name := fmt.Sprintf("/proc/self/fd/%d", at.Fd()), upperName(covered)
	upper, work = filepath.Join(dir, "upper", name), filepath.Join(dir, "work", name)
	if err := os.Mkdir(work, 0o700); err != nil && !os.IsExist(err) {
		return "", "", err
	}
	if err := plan.mkdir(upper, uid, gid); err != nil {
		if os.IsExist(err) {
			return upper, work, nil
		}
		return "", "", err
	}
	return upper, work, below.likeTop(upper)
}

// UpperOf is the path, below the directory of the uppers, at which an upper has what is at `inside` in the
// sandbox. It is "" if the sandbox is not known to have its own files there.
func UpperOf(uppers, inside string) string {
	for dir := inside; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(uppers, upperName(dir))); err == nil || !os.IsNotExist(err) {
			return ""
		}
	}
	return filepath.Join(upperName("/"), inside)
}

// upperName is "root" for the root and the escaped path for anything mounted in it. It is unique, and needs
// no escaping in mount options.
func upperName(covered string) string {
	if covered == "/" {
		return "root"
	}
	var name strings.Builder
	for _, c := range []byte(strings.TrimPrefix(covered, "/")) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
			name.WriteByte(c)
		} else {
			fmt.Fprintf(&name, "%%%02x", c)
		}
	}
	escaped := name.String()
	if escaped == "root" || len(escaped) > 200 {
		sum := sha256.Sum256([]byte(covered))
		return "%" + hex.EncodeToString(sum[:])
	}
	return escaped
}
