// Package early does what must happen before main. The Go runtime initialises packages with few dependencies
// first.
package early

import (
	"os"
	"runtime"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/capability"

	"golang.org/x/sys/unix"
)

func init() {
	if (len(os.Args) < 2 || os.Args[1] != "connect") && runtime.GOMAXPROCS(0) != 1 {
		// podd starts on one processor, which saves it threads, and uses two later. podhost says so in the
		// environment, which costs less.
		runtime.GOMAXPROCS(1)
	}
	for n, word := range os.Args {
		// SECURITY: `podd connect` carries the token and all data of the server inside the container, where a
		// payload of root may read the memory of any dumpable process of root.
		if n == 1 && word == "connect" && unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) != nil {
			os.Exit(1)
		}
		if word != "--"+bundle.ContainerFlag || hasDocker(os.Args) {
			continue
		}
		if err := capability.LimitBoundingSet(capability.Sudo); err != nil {
			os.Stderr.WriteString("podd: " + err.Error() + "\n")
			os.Exit(1)
		}
	}
}

// hasDocker: podhost passes the flag only in a virtual machine, where root inside keeps its capabilities.
func hasDocker(words []string) bool {
	for _, word := range words {
		if word == bundle.DockerFlag {
			return true
		}
	}
	return false
}
