package descriptor

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SealInherited marks every inherited descriptor close-on-exec, so that a program gets only 0, 1 and 2, and
// those that are passed on purpose.
//
// SECURITY: attack cases FS-12 and LK-02; a leaked descriptor can lead out of the sandbox.
func SealInherited() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
