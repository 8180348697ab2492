package lateroot

import (
	"errors"
	"fmt"

	"agentpod/native/internal/netns"

	"golang.org/x/sys/unix"
)

// RenewCommand is podd's subcommand that runs in a restored sandbox before it is used. gVisor's own `exec`
// starts it, with capabilities that nothing else inside has.
const RenewCommand = "renew"

// Renew gives a restored sandbox its own host name, and the network that gVisor does not restore.
func Renew(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: podd renew HOSTNAME")
	}
	if err := unix.Sethostname([]byte(args[0])); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	return netns.RedirectGVisor()
}
