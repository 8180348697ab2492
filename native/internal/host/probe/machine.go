package probe

import "agentpod/native/internal/hostproto"

// Machine performs the checks for virtual machines: whether the program that runs them, by its title, and a
// kernel are there, and whether a machine boots.
func Machine(title string, version func() (string, error), boots func() (detail string, err error)) []Check {
	found, err := version()
	if err != nil {
		failure := hostproto.AsError(err)
		return []Check{{Name: "qemu", Required: true, Detail: failure.Message, Hint: failure.Hint}}
	}
	return []Check{
		{Name: "qemu", OK: true, Required: true, Detail: title + " " + found},
		tried("machine", true, boots, "the detail says what failed; logs/podhost.log in the state directory has more"),
	}
}
