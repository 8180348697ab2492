package process

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
)

// oomScore makes the kernel kill a payload before podd.
const oomScore = "500"

// Request has everything that a start needs.
type Request struct {
	Config   Config
	Tag      string
	User     *account.User
	Env      map[string]string // the sandbox's variables; the request's own override them
	Workdir  string            // working directory of a request without cwd; empty means the user's home
	Stdin    bool
	Terminal *Size
	Sudo     bool
}

// E2B's SDKs run every command with bash -l -c. An image may have only a plain shell, which knows these
// options.
const (
	bash       = "/bin/bash"
	plainShell = "/bin/sh"
)

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// start runs one payload. The reader is attached before the first byte can arrive.
func (t *Table) start(request Request) (*Process, *Reader, error) {
	env, err := environment(request.User, request.Env, request.Config.Envs)
	if err != nil {
		return nil, nil, err
	}
	argv := append([]string{request.Config.Cmd}, request.Config.Args...)
	if strings.IndexByte(strings.Join(argv, ""), 0) >= 0 {
		return nil, nil, connect.Errorf(connect.InvalidArgument, "an argument contains a NUL byte")
	}
	command, err := findCommand(request.Config.Cmd, env["PATH"])
	if err != nil {
		return nil, nil, err
	}
	if command == bash && !isThere(bash) && isThere(plainShell) {
		command = plainShell
		argv[0] = plainShell
	}
	directory, err := t.workingDirectory(request)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(directory)
	io, err := openStdio(request)
	if err != nil {
		return nil, nil, err
	}
	defer io.closeChild()

	p := &Process{
		Tag: request.Tag, Config: request.Config, Started: time.Now(),
		Output: NewJournal(t.SpillDirs...), reaper: t.Reaper, oom: t.OOM,
		input: io.input, writing: make(chan struct{}, 1), terminal: request.Terminal != nil, done: make(chan struct{}),
	}
	launcher := t.Launchers.Strict
	if request.Sudo {
		launcher = t.Launchers.Sudo
	}
	attr := &syscall.ProcAttr{
		Dir:   "/proc/self/fd/" + strconv.Itoa(directory),
		Env:   flatten(env),
		Files: io.childFDs(),
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: p.terminal, Credential: credential(request.User)},
	}
	oomBefore := t.OOM.read()
	launcher.do(func() {
		p.child, err = t.Reaper.start(func() (int, error) { return syscall.ForkExec(command, argv, attr) })
	})
	if err != nil {
		io.closeParent()
		return nil, nil, startError(err, request.Config.Cmd)
	}
	p.Pid = p.child.pid
	os.WriteFile("/proc/"+strconv.Itoa(p.Pid)+"/oom_score_adj", []byte(oomScore), 0)
	reader := p.Output.Reader(0)
	pumps := io.pumps(p.Output)
	for _, pump := range pumps {
		go pump.run()
	}
	go p.watch(oomBefore, pumps)
	return p, reader, nil
}

// workingDirectory opens the payload's directory. Only a directory that the request names must exist.
func (t *Table) workingDirectory(request Request) (int, error) {
	dir, err := request.User.Resolve(request.Config.Cwd, request.Workdir)
	if err != nil {
		return -1, err
	}
	fd, err := openDirectory(request.User, dir)
	if err != nil && request.Config.Cwd == "" && request.Workdir == "" {
		return openDirectory(request.User, "/")
	}
	return fd, err
}

func credential(user *account.User) *syscall.Credential {
	if unix.Geteuid() != 0 {
		return nil
	}
	groups := make([]uint32, len(user.Groups))
	for i, gid := range user.Groups {
		groups[i] = uint32(gid)
	}
	return &syscall.Credential{Uid: uint32(user.UID), Gid: uint32(user.GID), Groups: groups}
}

func startError(err error, command string) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		if command == plainShell {
			return connect.Errorf(connect.NotFound, "the sandbox has no /bin/sh; run its programs by their path")
		}
		return connect.Errorf(connect.NotFound, "command %.200q not found", command)
	case unix.EACCES, unix.EPERM:
		return connect.Errorf(connect.PermissionDenied, "permission denied: command %.200q cannot be executed: %v", command, err)
	case unix.ENOEXEC:
		return connect.Errorf(connect.InvalidArgument, "command %.200q is not a program that this machine can run", command)
	case unix.E2BIG:
		return connect.Errorf(connect.InvalidArgument, "the arguments and environment are too long")
	case unix.EAGAIN, unix.ENOMEM:
		return connect.Errorf(connect.ResourceExhausted, "the sandbox cannot start another process: %v", err)
	}
	return err
}
