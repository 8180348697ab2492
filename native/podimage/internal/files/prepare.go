package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	cfs "github.com/containerd/continuity/fs"
)

// A Preparation is what a command needs besides its mounts.
type Preparation struct {
	Own   []Owned `json:"own,omitempty"`
	Links []Link  `json:"links,omitempty"`
}

// Owned gives a file or directory to a user.
type Owned struct {
	Path string `json:"path"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Mode uint32 `json:"mode"`
}

// A Link stands where a secret is expected. The secret itself is in a temporary file system, so its bytes
// never reach the files of the layer.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// madeFile lists directories that Prepare made, for Restore. It is in a temporary file system.
const madeFile = "/dev/shm/podfiles-made"

func Prepare(asked Preparation) error {
	for _, one := range asked.Own {
		if err := os.Chown(one.Path, one.UID, one.GID); err != nil {
			return err
		}
		if err := os.Chmod(one.Path, os.FileMode(one.Mode)&0o777); err != nil {
			return err
		}
	}
	var made bytes.Buffer
	for _, link := range asked.Links {
		for _, dir := range missing(filepath.Dir(link.Path)) {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			fmt.Fprintf(&made, "%s\x00", dir)
		}
		if err := os.Symlink(link.Target, link.Path); err != nil {
			if errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s is there already, so no secret can be mounted at it", link.Path)
			}
			return err
		}
	}
	return os.WriteFile(madeFile, made.Bytes(), 0o600)
}

// missing returns the directories to make, the uppermost first.
func missing(dir string) []string {
	if _, err := os.Lstat(dir); err == nil || dir == "/" {
		return nil
	}
	return append(missing(filepath.Dir(dir)), dir)
}

// Restore removes what Prepare made. Directories that a command put files into stay.
func Restore(asked Preparation) error {
	for _, link := range asked.Links {
		if found, err := os.Readlink(link.Path); err == nil && found == link.Target {
			if err := os.Remove(link.Path); err != nil {
				return err
			}
		}
	}
	data, err := os.ReadFile(madeFile)
	if err != nil {
		return err
	}
	dirs := bytes.Split(bytes.TrimSuffix(data, []byte{0}), []byte{0})
	for i := len(dirs) - 1; i >= 0; i-- {
		if len(dirs[i]) > 0 {
			_ = os.Remove(string(dirs[i]))
		}
	}
	return nil
}

// trusted are files with the certificate authority of a sandbox, and bundles are files to which podd adds it.
var (
	trusted = []string{"/usr/local/share/ca-certificates/agentpod.crt", "/etc/ssl/certs/agentpod.pem", "/etc/ssl/certs/java/agentpod.p12"}
	bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}
)

const (
	updateTime = time.Minute
	maxBundle  = 16 << 20
)

// ForgetTrust removes the authority of this sandbox from its files.
//
// SECURITY: SE-09. A sandbox on this layer has another authority and must not trust this one.
func ForgetTrust(ctx context.Context) error {
	_, wasLinked := os.Lstat("/etc/ssl/certs/agentpod.pem")
	for _, path := range trusted {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if program, err := exec.LookPath("/usr/sbin/update-ca-certificates"); err == nil && wasLinked == nil {
		ctx, cancel := context.WithTimeout(ctx, updateTime)
		defer cancel()
		_ = exec.CommandContext(ctx, program).Run()
	}
	for _, name := range bundles {
		if err := cutBundle(name); err != nil {
			return err
		}
	}
	return nil
}

func cutBundle(name string) error {
	path, err := cfs.RootPath("/", name)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBundle {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := bytes.Index(data, []byte("# AgentPod: "))
	if at > 0 {
		return os.Truncate(path, int64(at))
	}
	if at < 0 {
		return nil
	}
	// podd made the bundle, because the image has none.
	if err := os.Remove(path); err != nil {
		return err
	}
	for _, dir := range []string{"/etc/ssl/certs", "/etc/ssl"} {
		_ = os.Remove(dir)
	}
	return nil
}
