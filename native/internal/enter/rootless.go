package enter

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Unable is a host that cannot run sandboxes for an ordinary user; the text says what to do.
type Unable struct{ Advice string }

func (u Unable) Error() string { return u.Advice }

const neededIDs = 65536

// UserNamespace starts this program with args in a user and a mount namespace in which this user is root and owns a range of
// subordinate ids, and returns when the new process has them. The process then continues with Mapped.
func UserNamespace(args []string) error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	maps := map[string]idMap{}
	for tool, file := range map[string]string{"newuidmap": "/etc/subuid", "newgidmap": "/etc/subgid"} {
		if _, err := exec.LookPath(tool); err != nil {
			return Unable{tool + " is missing: install the uidmap (or shadow-utils) package, or run as root"}
		}
		base, ok := subordinate(file, me)
		if !ok {
			return Unable{fmt.Sprintf("%s gives %s no range of %d ids: run `sudo usermod --add-subuids 1000000-1065535 --add-subgids 1000000-1065535 %s` with a range that is free, or run as root",
				file, me.Username, neededIDs, me.Username)}
		}
		maps[tool] = idMap{base: base}
	}
	own := map[string]string{"newuidmap": me.Uid, "newgidmap": me.Gid}
	// go is released by a byte: it must not touch anything before it has its ids.
	wait, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{wait}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, Setsid: true}
	err = cmd.Start()
	wait.Close()
	if err != nil {
		return Unable{fmt.Sprintf("this user cannot make user namespaces (%v): look at the sysctls kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns and user.max_user_namespaces, or run as root", err)}
	}
	for tool, m := range maps {
		out, err := exec.Command(tool, strconv.Itoa(cmd.Process.Pid), "0", own[tool], "1", "1", strconv.Itoa(m.base), strconv.Itoa(neededIDs)).CombinedOutput()
		if err != nil {
			cmd.Process.Kill()
			cmd.Wait()
			return Unable{fmt.Sprintf("%s: %s (%v)", tool, strings.TrimSpace(string(out)), err)}
		}
	}
	_, err = release.Write([]byte{1})
	return err
}

type idMap struct{ base int }

// Mapped waits until this process has its ids and executes itself with args: as root of its namespace it regains by exec the
// capabilities that its first exec, as nobody, has lost.
func Mapped(args []string) error {
	gate := os.NewFile(3, "gate")
	if _, err := io.ReadFull(gate, make([]byte, 1)); err != nil {
		return fmt.Errorf("the user namespace was not mapped: %w", err)
	}
	gate.Close()
	return reexec(args)
}

// subordinate finds a range that is long enough, under the user's name or number.
func subordinate(file string, me *user.User) (int, bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) != 3 || (fields[0] != me.Username && fields[0] != me.Uid) {
			continue
		}
		base, err := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if err == nil && err2 == nil && count >= neededIDs {
			return base, true
		}
	}
	return 0, false
}
