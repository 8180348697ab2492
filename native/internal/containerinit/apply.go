// Package containerinit makes the calling process the first process of a container, as an OCI runtime does
// before it executes one. podhost started it in all of its namespaces. It
// does not execute another program: starting a program costs more than all of these system calls together.
package containerinit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"agentpod/native/internal/bundle"

	"golang.org/x/sys/unix"
)

// maxConfig bounds the configuration that Read accepts.
const maxConfig = 1 << 20

// Read decodes a configuration. It refuses fields that Apply does not know: a restriction that is not applied
// would be worse than an error.
func Read(from io.Reader) (config bundle.Config, err error) {
	data, err := io.ReadAll(io.LimitReader(from, maxConfig))
	if err != nil {
		return config, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("configuration: %w", err)
	}
	return config, nil
}

// Apply changes the namespaces, the root and the limits of the process. It must run before the process has
// any secret or serves anybody, and before Go code relies on paths of the old root. namespaces are the ones
// that the process was started in.
func Apply(config bundle.Config, namespaces []string) error {
	if err := check(config, namespaces); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(config.Hostname)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := enterRoot(config); err != nil {
		return err
	}
	for _, limit := range config.Process.Rlimits {
		if err := setLimit(limit); err != nil {
			return fmt.Errorf("%s: %w", limit.Type, err)
		}
	}
	return checkCapabilities(config.Process.Capabilities)
}

// check refuses a configuration that this process does not match or that Apply cannot apply.
func check(config bundle.Config, namespaces []string) error {
	kinds := make([]string, 0, len(config.Linux.Namespaces))
	for _, namespace := range config.Linux.Namespaces {
		kinds = append(kinds, namespace.Type)
	}
	process := config.Process
	switch {
	case strings.Join(kinds, " ") != strings.Join(namespaces, " "):
		return fmt.Errorf("namespaces %v: this program has %v", kinds, namespaces)
	case process.Terminal || process.NoNewPrivileges || process.User != (bundle.User{}) || process.Cwd != "/" || config.Root.Readonly:
		return fmt.Errorf("the first process is root in /, without a terminal and without no_new_privs, on a root that can be written")
	case os.Getpid() != 1 || os.Getuid() != 0 || os.Getgid() != 0:
		return fmt.Errorf("the process is not the first of its namespaces")
	}
	return nil
}

var limits = map[string]int{"RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE}

// setLimit uses package syscall, whose ForkExec otherwise gives children the soft limit on open files that
// the process started with.
func setLimit(limit bundle.Rlimit) error {
	resource, known := limits[limit.Type]
	if !known {
		return unix.EINVAL
	}
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit.Soft, Max: limit.Hard})
}
