package gvisor

import (
	"fmt"
	"regexp"
	"strings"
)

// removedPipe is what runsc says about a named pipe or socket that was removed while a program has it open.
var removedPipe = regexp.MustCompile(`gofer\.dentry\("(?:root)?(/?[^"]{1,300})"\)\.beforeSave: dead dentry .*synthetic=true`)

// noSpace is what the kernel says. runsc adds it to lines of any length.
const noSpace = "no space left on device"

const (
	maxSummary = 1000
	maxCause   = 400
)

// summary returns the part of what runsc has written that says why it failed.
func summary(output string) string {
	if found := removedPipe.FindString(output); found != "" {
		return found
	}
	if strings.Contains(output, noSpace) {
		return noSpace
	}
	return fmt.Sprintf("%.*s", maxSummary, strings.TrimSpace(output))
}

// CauseOf returns in one line why runsc could not save a sandbox. runsc adds the stacks of its goroutines.
func CauseOf(err error) string {
	text := err.Error()
	if found := removedPipe.FindStringSubmatch(text); found != nil {
		return fmt.Sprintf("a program has %s open, a named pipe or socket that was removed", found[1])
	}
	line, _, _ := strings.Cut(text, "\n")
	return fmt.Sprintf("%.*s", maxCause, strings.TrimSuffix(strings.TrimSpace(line), ":"))
}
