// Package account finds the users of the sandbox and does work as one of them.
package account

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

// The sandbox's root owns /etc/passwd, so the file is hostile: it is read up to a limit, and malformed lines
// are ignored.
const (
	maxFile   = 4 << 20
	maxLine   = 8 << 10
	maxID     = 1<<31 - 1
	maxGroups = 1024
)

// User is one line of /etc/passwd with the groups that name it.
type User struct {
	Name   string
	UID    int
	GID    int
	Groups []int
	Home   string
	Shell  string
}

// Lookup finds a user by name, or by number as images give it: UID or UID:GID. A user that does not exist is
// unauthenticated, which is what envd answers. A number needs no entry, and root exists in every sandbox.
func Lookup(name string) (*User, error) {
	return lookup(name, "/etc/passwd", "/etc/group")
}

func lookup(name, passwdFile, groupFile string) (*User, error) {
	uid, gid, isNumber := parseNumbers(name)
	passwd, err := open(passwdFile)
	if err != nil && (!errors.Is(err, os.ErrNotExist) || !isNumber && name != "root") {
		return nil, err
	}
	var user *User
	if err == nil {
		defer passwd.Close()
		if isNumber {
			user = findUID(passwd, uid)
		} else {
			user = findUser(passwd, name)
		}
	}
	switch {
	case user == nil && isNumber:
		user = &User{Name: strconv.Itoa(uid), UID: uid, Home: "/", Shell: "/bin/sh"}
	case user == nil && name == "root":
		user = &User{Name: name, Home: "/root", Shell: "/bin/sh"}
	case user == nil:
		return nil, connect.Errorf(connect.Unauthenticated, "user %.64q not found", name)
	}
	if gid >= 0 {
		user.GID = gid
		return user, nil
	}
	name = user.Name
	group, err := open(groupFile)
	if err != nil {
		return user, nil
	}
	defer group.Close()
	user.Groups = findGroups(group, name)
	return user, nil
}

// Names maps ids to names, for listings. A missing file gives an empty map.
func Names(path string) map[int]string {
	names := map[int]string{}
	file, err := open(path)
	if err != nil {
		return names
	}
	defer file.Close()
	eachLine(file, func(fields []string) bool {
		if id, ok := parseID(fields, 2); ok && validName(fields[0]) {
			if _, taken := names[id]; !taken {
				names[id] = fields[0]
			}
		}
		return len(names) < 1<<16
	})
	return names
}

// open refuses what could block or never end: the path may be a FIFO or a device.
func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, connect.Errorf(connect.FailedPrecondition, "%s is not a regular file", path)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// parseNumbers reads UID or UID:GID; gid is -1 if it is left out.
func parseNumbers(text string) (uid, gid int, ok bool) {
	fields := strings.Split(text, ":")
	uid, ok = parseID(fields, 0)
	if !ok || len(fields) > 2 {
		return 0, -1, false
	}
	if len(fields) == 1 {
		return uid, -1, true
	}
	gid, ok = parseID(fields, 1)
	return uid, gid, ok
}

func findUser(passwd io.Reader, name string) *User {
	if !validName(name) {
		return nil
	}
	return find(passwd, func(found string, _ int) bool { return found == name })
}

func findUID(passwd io.Reader, uid int) *User {
	return find(passwd, func(name string, found int) bool { return found == uid && validName(name) })
}

func find(passwd io.Reader, isWanted func(name string, uid int) bool) (found *User) {
	eachLine(passwd, func(fields []string) bool {
		if len(fields) != 7 {
			return true
		}
		uid, okUID := parseID(fields, 2)
		gid, okGID := parseID(fields, 3)
		if !okUID || !okGID || !isWanted(fields[0], uid) {
			return true
		}
		found = &User{Name: fields[0], UID: uid, GID: gid, Home: fields[5], Shell: fields[6]}
		if !strings.HasPrefix(found.Home, "/") {
			found.Home = "/"
		}
		if !strings.HasPrefix(found.Shell, "/") {
			found.Shell = "/bin/sh"
		}
		return false
	})
	return found
}

func findGroups(group io.Reader, name string) (gids []int) {
	eachLine(group, func(fields []string) bool {
		gid, ok := parseID(fields, 2)
		if !ok || len(fields) != 4 {
			return true
		}
		for _, member := range strings.Split(fields[3], ",") {
			if member == name {
				gids = append(gids, gid)
				break
			}
		}
		return len(gids) < maxGroups
	})
	return gids
}

func eachLine(r io.Reader, visit func(fields []string) (more bool)) {
	lines := bufio.NewScanner(io.LimitReader(r, maxFile))
	lines.Buffer(make([]byte, 0, 1024), maxLine)
	for lines.Scan() {
		text := lines.Text()
		if text == "" || text[0] == '#' || strings.IndexByte(text, 0) >= 0 {
			continue
		}
		if !visit(strings.Split(text, ":")) {
			return
		}
	}
}

func parseID(fields []string, index int) (int, bool) {
	if index >= len(fields) {
		return 0, false
	}
	id, err := strconv.ParseUint(fields[index], 10, 32)
	return int(id), err == nil && id <= maxID
}

func validName(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c == ':' || c == ',' || c == '/' || c == 0x7f {
			return false
		}
	}
	return true
}
