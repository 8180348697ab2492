package containerinit

import (
	"fmt"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/capability"
	"agentpod/native/internal/guard"

	"golang.org/x/sys/unix"
)

// capabilities are the ones that a configuration may grant.
var capabilities = map[string]int{
	"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_SETPCAP": unix.CAP_SETPCAP, "CAP_SETUID": unix.CAP_SETUID, "CAP_SETGID": unix.CAP_SETGID,
	"CAP_KILL": unix.CAP_KILL, "CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_FOWNER": unix.CAP_FOWNER,
	"CAP_FSETID": unix.CAP_FSETID, "CAP_SETFCAP": unix.CAP_SETFCAP, "CAP_SYS_CHROOT": unix.CAP_SYS_CHROOT,
	"CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
}

// limitCapabilities leaves every thread of the process only what the configuration grants. The bounding set
// was limited before main (package early).
func limitCapabilities(granted bundle.Capabilities) error {
	var sets [3]uint64
	for i, names := range [][]string{granted.Bounding, granted.Effective, granted.Permitted} {
		for _, name := range names {
			number, known := capabilities[name]
			if !known {
				return fmt.Errorf("capability %s cannot be granted", name)
			}
			sets[i] |= 1 << number
		}
	}
	if more := capability.BoundingSet() &^ sets[0]; more != 0 {
		return fmt.Errorf("the bounding set has %#x more than the configuration grants", more)
	}
	return guard.SetCapabilities(sets[1], sets[2])
}
