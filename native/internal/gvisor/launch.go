package gvisor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Launch starts the supervisor of a sandbox, which starts runsc. The supervisor is the first process of a pid
// namespace, so everything of the sandbox ends with it, and it ends with the exit code of podd.
type Launch struct {
	// Runsc is the program.
	Runsc string
	// Name is the name of the run. Directory is empty, on podhost's stage, and for this run alone.
	Name, Directory string
	Spec            Spec
	// Stage is podhost's stage. The supervisor gives up what is mounted there as soon as it can.
	Stage string
	// API and Egress are listening sockets. Parent and Ready are the pipes of a boot.Run.
	API, Egress, Parent, Ready *os.File
	// Control is a listening socket for Hold.
	Control *os.File
	// Image is the directory with saved memory to start from; empty for a new sandbox.
	Image string
	// Awaits: nothing runs inside until Restore.
	Awaits bool
	// IsCopy: the memory is that of another sandbox, with another host name.
	IsCopy bool
	// Group is the cgroup.procs file of the v2 group to join; nil on v1.
	Group *os.File
	Log   *os.File
}

// Start returns the supervisor's process id. The calling thread is locked and in the v1 groups.
func (l Launch) Start() (int, error) {
	data, err := json.Marshal(newConfig(l.Spec))
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(l.Directory, "config.json"), data, 0o600); err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	argv := []string{"podhost", SupervisorCommand, "--runsc", l.Runsc, "--name", l.Name, "--directory", l.Directory, "--stage", l.Stage}
	if l.Image != "" {
		argv = append(argv, "--image", l.Image)
	}
	if l.Awaits {
		argv = append(argv, "--await")
	}
	if l.IsCopy {
		argv = append(argv, "--rename", l.Spec.Hostname)
	}
	files := []uintptr{null.Fd(), l.Log.Fd(), l.Log.Fd()}
	for _, one := range []struct {
		flag string
		file *os.File
	}{{"--api-fd", l.API}, {"--egress-fd", l.Egress}, {"--parent-fd", l.Parent}, {"--ready-fd", l.Ready}, {"--group-fd", l.Group}, {"--control-fd", l.Control}} {
		if one.file != nil {
			argv = append(argv, one.flag, strconv.Itoa(len(files)))
			files = append(files, one.file.Fd())
		}
	}
	pid, _, err := syscall.StartProcess("/proc/self/exe", argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS},
	})
	if err != nil {
		return 0, fmt.Errorf("start the supervisor: %w", err)
	}
	return pid, nil
}
