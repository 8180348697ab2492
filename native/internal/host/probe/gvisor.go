package probe

import (
	"fmt"

	"agentpod/native/internal/hostproto"
)

// GVisor performs the checks for gVisor sandboxes: whether there is a runsc, and whether a sandbox runs on
// it.
func GVisor(release func() (string, error), sandbox func() (detail string, err error)) []Check {
	found, err := release()
	if err != nil {
		failure := hostproto.AsError(err)
		return []Check{{Name: "runsc", Required: true, Detail: failure.Message, Hint: failure.Hint}}
	}
	return []Check{
		{Name: "runsc", OK: true, Required: true, Detail: fmt.Sprintf("gVisor's release of %s", found)},
		tried("sandbox", true, sandbox, "the detail says what failed; logs/podhost.log in the state directory has more"),
	}
}
