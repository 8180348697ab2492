package process

import (
	"os"
	"path"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment builds a payload's variables from nothing: those of the user, then the sandbox's, then the
// request's.
//
// SECURITY: attack case LK-01; podd's own environment is not included.
func environment(user *account.User, layers ...map[string]string) (map[string]string, error) {
	env := map[string]string{
		"PATH": defaultPath, "HOME": user.Home, "USER": user.Name, "LOGNAME": user.Name, "SHELL": user.Shell,
	}
	for _, layer := range layers {
		if err := CheckEnv(layer); err != nil {
			return nil, err
		}
		for name, value := range layer {
			env[name] = value
		}
	}
	return env, nil
}

// CheckEnv refuses names and values that execve cannot carry.
func CheckEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return connect.Errorf(connect.InvalidArgument, "%.64q is not a valid environment variable", name)
		}
	}
	return nil
}

func flatten(env map[string]string) []string {
	flat := make([]string, 0, len(env))
	for name, value := range env {
		flat = append(flat, name+"="+value)
	}
	sort.Strings(flat)
	return flat
}

// findCommand looks up a bare name in the payload's PATH. The kernel resolves a name with a slash, relative
// to the working directory. Relative directories in PATH are ignored.
func findCommand(name, searchPath string) (string, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", connect.Errorf(connect.InvalidArgument, "the command is empty or contains a NUL byte")
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range strings.Split(searchPath, ":") {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		candidate := path.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", connect.Errorf(connect.NotFound, "command %.200q not found", name)
}

// openDirectory opens a working directory as the user.
//
// SECURITY: attack case FS-12. The links below /proc/<pid> can lead out of the sandbox's root, so none is
// followed, and /proc itself is not accepted. The child changes into this descriptor, so the path cannot be
// swapped in between.
func openDirectory(user *account.User, dir string) (fd int, err error) {
	err = user.As(func() error {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
		fd, err = unix.Openat2(unix.AT_FDCWD, dir, &how)
		if err == unix.ENOSYS {
			fd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		}
		if err != nil {
			return err
		}
		var fs unix.Statfs_t
		if err = unix.Fstatfs(fd, &fs); err == nil && fs.Type == unix.PROC_SUPER_MAGIC {
			err = unix.ELOOP
		}
		opened := fd
		if err == nil {
			// O_PATH needs no permission on the directory itself; the step to "." does, as chdir will.
			fd, err = unix.Openat(opened, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		unix.Close(opened)
		return err
	})
	switch err {
	case nil:
		return fd, nil
	case unix.ENOENT:
		return -1, connect.Errorf(connect.InvalidArgument, "working directory %.200q does not exist", dir)
	case unix.ENOTDIR:
		return -1, connect.Errorf(connect.InvalidArgument, "working directory %.200q is not a directory", dir)
	case unix.ELOOP:
		return -1, connect.Errorf(connect.InvalidArgument, "working directory %.200q leads through /proc or too many links", dir)
	case unix.EACCES, unix.EPERM:
		return -1, connect.Errorf(connect.PermissionDenied, "user %s may not enter working directory %.200q", user.Name, dir)
	}
	return -1, err
}
