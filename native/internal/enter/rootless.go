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

// Unable: this host cannot run sandboxes for an ordinary user. The text says what to do.
type Unable struct{ Advice string }

func (u Unable) Error() string { return u.Advice }

const neededIDs = 65536

// UserNamespace starts this program with args in a user and a mount namespace in which this user is root and
// owns a range of subordinate ids; there it continues with Mapped. It returns when that process has written
// its first line, which it passes on, or with its exit code when it has ended.
func UserNamespace(args []string) (int, error) {
	me, err := user.Current()
	if err != nil {
		return 0, err
	}
	maps, err := findMaps(me)
	if err != nil {
		return 0, err
	}
	// The gate makes the process wait: it must not touch anything before it has its ids.
	wait, gate, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer gate.Close()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{wait}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, Setsid: true}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	wait.Close()
	if err != nil {
		return 0, Unable{fmt.Sprintf("this user cannot make user namespaces (%v): check the sysctls kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns and user.max_user_namespaces, or run as root; a container also needs a seccomp profile that allows them (docker run --security-opt seccomp=unconfined)", err)}
	}
	for _, m := range maps {
		out, err := exec.Command(m.tool, strconv.Itoa(cmd.Process.Pid), "0", m.own, "1", "1", strconv.Itoa(m.base), strconv.Itoa(neededIDs)).CombinedOutput()
		if err != nil {
			cmd.Process.Kill()
			cmd.Wait()
			return 0, Unable{fmt.Sprintf("%s: %s (%v)%s", m.tool, strings.TrimSpace(string(out)), err, mapHint(out))}
		}
	}
	if _, err := gate.Write([]byte{1}); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		cmd.Wait()
		return cmd.ProcessState.ExitCode(), nil
	}
	_, err = os.Stdout.WriteString(line)
	return 0, err
}

// mapHint is for containers: a setuid tool acts as root, whose capabilities the container has reduced. A tool
// with a file capability acts as the user, who owns the new namespace.
func mapHint(output []byte) string {
	if !strings.Contains(string(output), "Operation not permitted") {
		return ""
	}
	return ": in a container, replace the setuid bits by file capabilities: chmod u-s /usr/bin/newuidmap /usr/bin/newgidmap; " +
		"setcap cap_setuid=ep /usr/bin/newuidmap; setcap cap_setgid=ep /usr/bin/newgidmap"
}

// idMap is one call of a mapping tool.
type idMap struct {
	tool, own string
	base      int
}

func findMaps(me *user.User) ([]idMap, error) {
	maps := []idMap{{tool: "newuidmap", own: me.Uid}, {tool: "newgidmap", own: me.Gid}}
	for i, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if _, err := exec.LookPath(maps[i].tool); err != nil {
			return nil, Unable{maps[i].tool + " is missing: run `sudo apt-get install uidmap` (or `sudo dnf install shadow-utils`), or run as root"}
		}
		base, ok := subordinate(file, me)
		if !ok {
			return nil, Unable{fmt.Sprintf("%s gives %s no range of %d ids: run `sudo usermod --add-subuids 1000000-1065535 --add-subgids 1000000-1065535 %s` with a free range, or run as root",
				file, me.Username, neededIDs, me.Username)}
		}
		maps[i].base = base
	}
	return maps, nil
}

// Mapped waits until this process has its ids and executes itself with args. Its first exec, as nobody, lost
// the capabilities; as root of its namespace it regains them by this exec.
func Mapped(args []string) error {
	gate := os.NewFile(3, "gate")
	if _, err := io.ReadFull(gate, make([]byte, 1)); err != nil {
		return fmt.Errorf("the user namespace was not mapped: %w", err)
	}
	gate.Close()
	return reexec(args)
}

// subordinate finds a range that is long enough, by the user's name or number.
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
