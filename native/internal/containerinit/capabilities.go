package containerinit

import (
	"fmt"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/capability"
)

// checkCapabilities refuses a configuration that grants less than podd keeps when it serves, or less than it
// could give to what it starts. Until it serves podd has more, to set up the container: nothing of the
// sandbox runs before. Go has to stop all threads for each change, so there is only one, when podd gives up
// the rest (guard.DropCapabilities).
func checkCapabilities(granted bundle.Capabilities) error {
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
	if more := capability.Podd &^ (sets[1] & sets[2]); more != 0 {
		return fmt.Errorf("podd keeps %#x, which the configuration does not grant", more)
	}
	return nil
}
