package gvisor

import (
	"fmt"
	"regexp"
	"strings"
)

// removedPipe is what runsc says about a named pipe or socket that was removed while a program has it open.
var removedPipe = regexp.MustCompile(`gofer\.dentry\("(?:root)?(/?[^"]{1,300})"\)\.beforeSave: dead dentry .*synthetic=true`)

const maxCause = 400

// CauseOf returns in one line why runsc could not save a sandbox. runsc adds the stacks of its goroutines.
func CauseOf(err error) string {
	text := err.Error()
	if found := removedPipe.FindStringSubmatch(text); found != nil {
		return fmt.Sprintf("a program has %s open, a named pipe or socket that was removed", found[1])
	}
	line, _, _ := strings.Cut(text, "\n")
	return fmt.Sprintf("%.*s", maxCause, strings.TrimSuffix(strings.TrimSpace(line), ":"))
}
