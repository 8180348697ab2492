// Package mount makes file system trees in podhost's own mount namespace.
package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Range says which of podhost's ids a user namespace's ids 0..Count-1 are.
type Range struct {
	Base  int
	Count int
}

// UserNamespaceHelper is podhost's subcommand that NewUserNamespace runs.
const UserNamespaceHelper = "userns-helper"

// NewUserNamespace makes a user namespace that maps ids to r and returns a descriptor that keeps it open. It
// is sealed: nothing in it can make a nested one. A nested namespace would give a process capabilities, and
// so access to the kernel code behind them (case PR-03). The switch is per namespace and needs
// CAP_SYS_RESOURCE in it, which only a process born inside has. crun refuses to write it, so it joins a
// namespace made here.
//
// owner, an id of podhost's namespace, is the user to whom the kernel charges what the namespace uses of
// limits per user. With its own owner, a sandbox uses up only its own watches and queues (case RS-08); 0
// charges podhost's user.
func NewUserNamespace(r Range, owner int) (*os.File, error) {
	made, err := newNamespaces(r, owner, 0)
	return made.User, err
}

// NewIdmap makes a user namespace for mounts that show the ids of one range as those of another. Root stays
// root in it, because podhost makes directories through such mounts, and overlay its whiteouts.
func NewIdmap(stored, shown Range) (*os.File, error) {
	return idmapNamespace([]syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: stored.Base, HostID: shown.Base, Size: shown.Count}})
}

// NewOwner makes a user namespace for mounts that show the files of root as those of another user.
func NewOwner(uid int) (*os.File, error) {
	return idmapNamespace([]syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}})
}

// idmapNamespace makes a namespace in which nothing runs: its one process ends before it has begun.
func idmapNamespace(ids []syscall.SysProcIDMap) (*os.File, error) {
	cmd := helper("idle", ids, 0)
	// The process waits, if it gets that far, as long as nobody writes to the pipe.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	made, err := openNamespaces(cmd.Process.Pid, false)
	return made.User, err
}

func (r Range) mapping() []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: r.Base, Size: r.Count}}
}

// Namespaces are a sealed user namespace and a network namespace that belongs to it. Each descriptor keeps
// its namespace open.
type Namespaces struct{ User, Network *os.File }

// NewNamespaces makes both with one process, because starting the process is the expensive part.
func NewNamespaces(r Range, owner int) (Namespaces, error) {
	return newNamespaces(r, owner, syscall.CLONE_NEWNET)
}

// Close closes both.
func (n Namespaces) Close() {
	for _, file := range []*os.File{n.User, n.Network} {
		if file != nil {
			file.Close()
		}
	}
}

// Inside runs work on a thread in the network namespace. The thread ends afterwards and never leaves the
// namespace. It works as the owner of the user namespace, who has every capability over it, even those that
// podhost was started without.
func (n Namespaces) Inside(work func() error) error {
	owner, err := unix.IoctlGetUint32(int(n.User.Fd()), unix.NS_GET_OWNER_UID)
	if err != nil {
		return fmt.Errorf("owner of the user namespace: %w", err)
	}
	return onThread(func() error {
		if err := BecomeOwner(int(owner)); err != nil {
			return err
		}
		if err := unix.Setns(int(n.Network.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return work()
	})
}

// helper is a process in a new user namespace with these ids.
func helper(mode string, ids []syscall.SysProcIDMap, more uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", UserNamespaceHelper, mode)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | more,
		UidMappings:                ids,
		GidMappings:                ids,
		GidMappingsEnableSetgroups: true,
		// Without an identity inside the map, the exec would drop the capabilities that the seal needs.
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
	}
	return cmd
}

func newNamespaces(r Range, owner int, more uintptr) (made Namespaces, err error) {
	cmd := helper("sealed", r.mapping(), more)
	release, err := cmd.StdinPipe()
	if err != nil {
		return made, err
	}
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return made, err
	}
	if err := asOwner(owner, cmd.Start); err != nil {
		return made, fmt.Errorf("user namespace: %w", err)
	}
	defer func() {
		release.Close()
		cmd.Wait()
	}()
	line := make([]byte, 256)
	n, _ := answer.Read(line)
	if string(line[:n]) != "ok" {
		return made, fmt.Errorf("user namespace: %s", line[:n])
	}
	return openNamespaces(cmd.Process.Pid, more != 0)
}

func openNamespaces(pid int, withNetwork bool) (made Namespaces, err error) {
	if made.User, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", pid)); err != nil || !withNetwork {
		return made, err
	}
	if made.Network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
		made.Close()
		return Namespaces{}, err
	}
	return made, nil
}

// asOwner runs start on a thread whose effective user is owner: a namespace belongs to the effective user of
// the thread that clones it.
func asOwner(owner int, start func() error) error {
	return onThread(func() error {
		if err := BecomeOwner(owner); err != nil {
			return err
		}
		return start()
	})
}

// onThread runs work on a thread that ends afterwards, whatever work has changed on it.
func onThread(work func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- work()
	}()
	return <-result
}

// BecomeOwner changes the thread's effective user to the owner of a namespace that the thread is about to
// clone, or of one that it enters. owner 0 changes nothing. The thread keeps its capabilities, which it needs
// to write a map of ids.
func BecomeOwner(owner int) error {
	if owner == 0 {
		return nil
	}
	const keep = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(owner), keep); errno != 0 {
		return fmt.Errorf("become %d: %w", owner, errno)
	}
	return raiseCapabilities()
}

// AsOwnerOf runs work as the owner of a process's user namespace, who has every capability in it.
func AsOwnerOf(pid int, work func() error) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return err
	}
	defer namespace.Close()
	owner, err := unix.IoctlGetUint32(int(namespace.Fd()), unix.NS_GET_OWNER_UID)
	if err != nil {
		return fmt.Errorf("owner of the user namespace: %w", err)
	}
	return asOwner(int(owner), work)
}

// raiseCapabilities makes the thread's permitted capabilities effective again: changing the effective user
// from root has lowered them.
func raiseCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	for i := range sets {
		sets[i].Effective = sets[i].Permitted
	}
	return unix.Capset(&header, &sets[0])
}

// RunUserNamespaceHelper is the process inside: it seals the namespace if asked to, and stays until podhost
// has opened it.
func RunUserNamespaceHelper(mode string) error {
	answer := "ok"
	if mode == "sealed" {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			answer = err.Error()
		}
	}
	if _, err := os.Stdout.WriteString(answer); err != nil {
		return err
	}
	os.Stdin.Read(make([]byte, 1))
	return nil
}
