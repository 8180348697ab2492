package host

import (
	"fmt"

	"agentpod/native/internal/vm"
)

// tryMachine says how machines boot here. It boots none: that takes longer than a probe may, and podhost
// could end meanwhile. The first sandbox does it, with a time limit, and reports what fails.
func (h *Host) tryMachine() (string, error) {
	template, err := h.machines.AnyTemplate()
	switch {
	case err != nil:
		return "", err
	case template == nil:
		return "no machine has booted yet; the first sandbox boots one", nil
	case template.Accel == vm.Hardware:
		return fmt.Sprintf("a machine with %d MiB has booted with KVM", template.MemoryMiB), nil
	}
	return fmt.Sprintf("a machine with %d MiB has booted by software emulation: KVM is not available or did not boot one", template.MemoryMiB), nil
}
