package containerinit

import (
	"fmt"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/capability"
	"agentpod/native/internal/guard"
)

// limitCapabilities leaves every thread of the process only what the configuration grants. The bounding set
// was limited before main (package early).
func limitCapabilities(granted bundle.Capabilities) error {
	var sets [3]uint64
	for i, names := range [][]string{granted.Bounding, granted.Effective, granted.Permitted} {
		for _, name := range names {
			number, known := bundle.CapabilityNumbers[name]
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
