package enter

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// nsGetParent is NS_GET_PARENT of linux/nsfs.h.
const nsGetParent = 0xb702

// Rejoin executes this program with args as root of the user namespace that an earlier podhost of this user
// made. Only from there can its sandboxes be ended. It finds the namespace through a sandbox that still runs
// in it. It returns only on failure, or if none of pids belongs to such a sandbox. Entering a user namespace
// takes a program with a single thread, such as nsenter; a Go program never has one.
func Rejoin(pids []int, args []string) error {
	for _, pid := range pids {
		sandbox, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		if err != nil {
			continue
		}
		parent, err := unix.IoctlRetInt(int(sandbox.Fd()), nsGetParent)
		sandbox.Close()
		if err != nil {
			continue
		}
		nsenter, err := exec.LookPath("nsenter")
		if err != nil {
			return Unable{"nsenter is missing: install the util-linux package; sandboxes of an earlier podhost need it"}
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		// nsenter opens the namespace again by this name. The descriptor itself closes when podhost starts.
		argv := append([]string{"nsenter", fmt.Sprintf("--user=/proc/%d/fd/%d", os.Getpid(), parent), "--setuid", "0", "--setgid", "0", "--", self}, args...)
		if _, err := unix.FcntlInt(uintptr(parent), unix.F_SETFD, 0); err != nil {
			return err
		}
		return unix.Exec(nsenter, argv, os.Environ())
	}
	return nil
}
