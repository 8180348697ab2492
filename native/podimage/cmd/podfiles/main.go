// podfiles changes the files of a root for a build: COPY, ADD, WORKDIR and what else a Dockerfile does
// without a command. The server mounts it into a sandbox whose root is the root to change; sources are
// mounted read-only. It is called with an operation and a file that has the work as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"agentpod/podimage/internal/actions"
	"agentpod/podimage/internal/files"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("podfiles: OPERATION FILE")
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	// Modes are those of the work, whatever the caller's mask is.
	syscall.Umask(0)
	ctx := context.Background()
	switch args[0] {
	case "apply":
		var work files.Work
		if err := decode(data, &work); err != nil {
			return err
		}
		return files.Apply(ctx, "/", work)
	case "fetch":
		var asked actions.HTTP
		if err := decode(data, &asked); err != nil {
			return err
		}
		return files.Fetch(ctx, "/", asked, os.Stdout)
	case "clone":
		var asked actions.Git
		if err := decode(data, &asked); err != nil {
			return err
		}
		return files.Clone(ctx, "/", asked, os.Stdout)
	case "prepare":
		var asked files.Preparation
		if err := decode(data, &asked); err != nil {
			return err
		}
		return files.Prepare(asked)
	case "restore":
		var asked files.Preparation
		if err := decode(data, &asked); err != nil {
			return err
		}
		return files.Restore(asked)
	case "forget":
		return files.ForgetTrust(ctx)
	}
	return fmt.Errorf("podfiles: there is no operation %q", args[0])
}

func decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
