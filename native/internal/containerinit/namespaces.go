package containerinit

import (
	"errors"
	"os"
)

// SealUserNamespace forbids nested user namespaces. A nested one would give a process capabilities, and so
// access to the kernel code behind them. The switch is per namespace and needs CAP_SYS_RESOURCE in it, which
// only a process born inside has. Call it before Apply, which makes the switch read-only.
//
// SECURITY: PR-03.
func SealUserNamespace() error {
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if errors.Is(err, os.ErrNotExist) {
		// A kernel without user namespaces' limits has no nested ones to forbid.
		return nil
	}
	return err
}
