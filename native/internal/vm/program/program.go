// Package program finds out whether a program can be used, and its version.
package program

import (
	"context"
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

// A Version is major and minor.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// IsBefore reports whether a version is older than another one.
func (v Version) IsBefore(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

// A Description is what is known about a program before it is found.
type Description struct {
	// Title is how people call it.
	Title string
	// Least is the oldest version that works.
	Least Version
	// Line finds the version in what the program says about itself: all of it, major and minor.
	Line *regexp.Regexp
	// Variable names the environment variable that names the program. Install says how to get it.
	Variable, Install string
}

// A Program is one at a path, which may be missing, and may be replaced while podhost runs.
type Program struct {
	Description
	Path string

	mu      sync.Mutex
	checked os.FileInfo
	// version is all that the program says about itself.
	version string
	failure error
}

// Version returns the version of the program, or why it cannot be used. It asks the program once, and again
// if the file has changed.
func (p *Program) Version() (string, error) {
	info, err := os.Stat(p.Path)
	if p.Path == "" || os.IsNotExist(err) {
		return "", unavailable(p.Title+" is not installed", p.Install)
	}
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checked == nil || !os.SameFile(p.checked, info) || !p.checked.ModTime().Equal(info.ModTime()) {
		p.version, p.failure = p.ask(info)
		p.checked = info
	}
	return p.version, p.failure
}

// ask refuses a program that another user could change.
func (p *Program) ask(info os.FileInfo) (string, error) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.Mode().IsRegular() || stat.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return "", unavailable(fmt.Sprintf("%s does not belong to root alone", p.Path), fmt.Sprintf("run `chown root %[1]s; chmod go-w %[1]s`", p.Path))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, p.Path, "--version").CombinedOutput()
	if err != nil {
		return "", unavailable(fmt.Sprintf("%s --version: %v: %.200s", p.Path, err, strings.TrimSpace(string(output))), p.Install)
	}
	found := p.Line.FindStringSubmatch(string(output))
	var version Version
	if found != nil {
		fmt.Sscan(found[2]+" "+found[3], &version.Major, &version.Minor)
	}
	if found == nil || version.Major == 0 {
		return "", unavailable(fmt.Sprintf("%s does not say its version: %.200s", p.Path, strings.TrimSpace(string(output))), p.Install)
	}
	if version.IsBefore(p.Least) {
		return found[1], unavailable(fmt.Sprintf("%s is of version %s; virtual machines need %s or later", p.Title, version, p.Least),
			fmt.Sprintf("install a newer %s, and name it with %s", p.Title, p.Variable))
	}
	return found[1], nil
}

func unavailable(message, hint string) error {
	return hostproto.Errorf(hostproto.FailedPrecondition, "qemu.unavailable", "%s", message).WithHint(hint)
}
