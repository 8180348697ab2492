package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentpod/native/internal/hostproto"
)

// LeastRelease is the oldest release of runsc that sandboxes work with. Releases are dates.
const LeastRelease = "20250901"

// A Runsc is the program at a path, which may be missing, and may be replaced while podhost runs.
type Runsc struct {
	Path string
	// Rootless: podhost runs as an ordinary user.
	Rootless bool

	mu      sync.Mutex
	checked os.FileInfo
	release string
	failure error
}

// Program returns the path of a runsc that can be used, or why there is none.
func (r *Runsc) Program() (string, error) {
	_, err := r.Release()
	return r.Path, err
}

// Release returns the release of the program. It asks the program once, and again if the file has changed.
func (r *Runsc) Release() (string, error) {
	info, err := os.Stat(r.Path)
	if r.Path == "" || errors.Is(err, os.ErrNotExist) {
		return "", unavailable("runsc is not installed", "run `agentpod provider setup gvisor`, which installs it")
	}
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked == nil || !os.SameFile(r.checked, info) || !r.checked.ModTime().Equal(info.ModTime()) {
		r.release, r.failure = ask(r.Path, info, r.Rootless)
		r.checked = info
	}
	return r.release, r.failure
}

var releaseLine = regexp.MustCompile(`(?m)^runsc version \S*?(20\d{6})`)

// unmapped is the owner of files of the machine's root in the user namespace of an ordinary user.
const unmapped = 65534

// ask refuses a program that another user could change: podhost would run it with its own rights.
func ask(path string, info os.FileInfo, rootless bool) (string, error) {
	stat, known := info.Sys().(*syscall.Stat_t)
	isOwn := known && (stat.Uid == 0 || rootless && stat.Uid == unmapped)
	if !isOwn || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return "", unavailable(fmt.Sprintf("%s does not belong to root alone", path), fmt.Sprintf("run `chown root %[1]s; chmod go-w %[1]s`", path))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return "", unavailable(fmt.Sprintf("%s --version: %v: %.200s", path, err, strings.TrimSpace(string(output))),
			"run `agentpod provider setup gvisor`, which installs another one")
	}
	found := releaseLine.FindSubmatch(output)
	if found == nil {
		return "", unavailable(fmt.Sprintf("%s does not say its release: %.200s", path, strings.TrimSpace(string(output))),
			"run `agentpod provider setup gvisor`, which installs a known one")
	}
	release := string(found[1])
	if release < LeastRelease {
		return release, unavailable(fmt.Sprintf("runsc is of %s; sandboxes need %s or later", release, LeastRelease),
			"run `agentpod provider setup gvisor`, which installs a newer one")
	}
	return release, nil
}

func unavailable(message, hint string) error {
	return hostproto.Errorf(hostproto.FailedPrecondition, "gvisor.unavailable", "%s", message).WithHint(hint)
}
