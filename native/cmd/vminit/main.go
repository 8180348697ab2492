// vminit is the first process of a virtual machine. It is part of the machine's initial RAM disk.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"agentpod/native/internal/vm/inside"

	"golang.org/x/sys/unix"
)

// The first thread is kept for main: other threads enter podd's namespaces and end there.
func init() { runtime.LockOSThread() }

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "vminit is the first process of a virtual machine, and of nothing else")
		os.Exit(2)
	}
	err := inside.Run()
	fmt.Fprintln(os.Stderr, "vminit:", err)
	time.Sleep(100 * time.Millisecond)
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
