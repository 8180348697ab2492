package launch

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Seal returns a copy of a program in memory that nobody can change, not even root.
//
// SECURITY: FS-11. A payload that gets hold of the runtime through /proc/self/exe gets this copy, never the
// host's file. crun makes such a copy of itself at each start and executes itself again, unless it runs from
// one already.
func Seal(path string) (*os.File, error) {
	source, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	fd, err := unix.MemfdCreate("runtime", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	memory := os.NewFile(uintptr(fd), path)
	if _, err = io.Copy(memory, source); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		memory.Close()
		return nil, fmt.Errorf("seal %s: %w", path, err)
	}
	return memory, nil
}
