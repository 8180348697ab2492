package lateroot

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// RenameCommand is podd's subcommand that gives a copy of a sandbox its own host name. gVisor's own `exec`
// starts it, with a capability that nothing else inside has.
const RenameCommand = "rename"

// Rename sets the host name.
func Rename(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: podd rename HOSTNAME")
	}
	if err := unix.Sethostname([]byte(args[0])); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	return nil
}
