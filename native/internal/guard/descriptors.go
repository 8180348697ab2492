// Package guard sets up podd's own defences at start: descriptors, dumpable flag, signals, capabilities.
package guard

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SealDescriptors marks every inherited descriptor close-on-exec, so that a payload gets only 0, 1 and 2.
//
// SECURITY: attack cases FS-12 and LK-02; a leaked descriptor can lead out of the sandbox.
func SealDescriptors() error {
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

// Undumpable keeps other processes from tracing podd, from reading its memory and from following its /proc
// links.
func Undumpable() error {
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
