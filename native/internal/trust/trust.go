// Package trust makes the programs of a sandbox trust the certificate authority of its egress, and the roots
// that its owner names.
package trust

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

const (
	// MaxText bounds each of the two texts.
	MaxText = 2 << 20
	// maxBundle is the largest bundle that is rewritten; the usual size is a quarter of a megabyte.
	maxBundle = 8 << 20

	// marker is where AgentPod's part of a bundle begins.
	marker = "# AgentPod: what follows is written anew at every start\n"

	ownDir    = "/run/agentpod"
	localDir  = "/usr/local/share/ca-certificates"
	localName = "agentpod.crt"
)

// bundles are where the libraries of the usual distributions look. If none exists, the first is made.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Anchors are what a sandbox trusts in addition to its image's certificates, as PEM.
type Anchors struct {
	CA    string `json:"ca"`
	Roots string `json:"roots"`
	// Name is what the server calls both texts together. It names them again in place of sending them.
	Name string `json:"name"`
}

// IsOnlyName reports whether the anchors are named and not there.
func (a Anchors) IsOnlyName() bool { return a.Name != "" && a.CA == "" && a.Roots == "" }

// IsSame reports whether both are the same certificates, whatever they are called.
func (a Anchors) IsSame(b Anchors) bool { return a.CA == b.CA && a.Roots == b.Roots }

// Check refuses anything but certificates.
func (a Anchors) Check() error {
	if a.CA == "" {
		return errors.New("trust.ca is empty")
	}
	if err := checkCertificates(a.CA); err != nil {
		return fmt.Errorf("trust.ca: %w", err)
	}
	if err := checkCertificates(a.Roots); err != nil {
		return fmt.Errorf("trust.roots: %w", err)
	}
	return nil
}

func checkCertificates(text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("more than %d bytes", MaxText)
	}
	for rest := []byte(strings.TrimSpace(text)); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		// The decoder would skip what it does not understand.
		if !bytes.HasPrefix(rest, []byte("-----BEGIN CERTIFICATE-----\n")) {
			return errors.New("it contains something other than certificates")
		}
		block, after := pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0 || !isSequence(block.Bytes) {
			return errors.New("it contains a damaged certificate")
		}
		// A decoder that skipped a block has read further than the end of the first one.
		if read := rest[:len(rest)-len(after)]; bytes.Count(read, []byte("-----BEGIN")) != 1 {
			return errors.New("it contains a damaged certificate")
		}
		rest = after
	}
	return nil
}

// isSequence reports whether the bytes are one DER sequence with at most two length bytes, as every
// certificate is.
func isSequence(der []byte) bool {
	if len(der) < 4 || der[0] != 0x30 {
		return false
	}
	switch {
	case der[1] < 0x80:
		return len(der) == 2+int(der[1])
	case der[1] == 0x81:
		return len(der) == 3+int(der[2])
	case der[1] == 0x82:
		return len(der) == 4+int(der[2])<<8+int(der[3])
	}
	return false
}

// Write puts checked anchors where programs look. It logs files that it cannot write in an unusual tree, and
// writes the rest.
func (a Anchors) Write() { a.writeBelow("/") }

func (a Anchors) writeBelow(root string) {
	ca := withNewline(a.CA)
	own := append([]byte(marker+withNewline(a.Roots)), ca...)
	first := writeBundles(root, own, place)
	defer first.close()
	dir := filepath.Join(root, ownDir)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		report(err)
		return
	}
	report(place(filepath.Join(dir, "ca.pem"), bundle{}, []byte(ca)))
	report(place(filepath.Join(dir, "ca-bundle.pem"), first, own))
	if info, err := os.Stat(filepath.Join(root, localDir)); err == nil && info.IsDir() {
		// update-ca-certificates keeps certificates in this directory.
		report(place(filepath.Join(root, localDir, localName), bundle{}, []byte(ca)))
	}
}

func report(err error) {
	if err != nil {
		log.Printf("trust: %v", err)
	}
}

// writeBundles extends every existing bundle, with place, and returns the first one that it could extend. The
// caller closes it; it may be empty.
func writeBundles(root string, own []byte, place func(path string, kept bundle, own []byte) error) (first bundle) {
	seen := map[string]bool{}
	for _, name := range bundles {
		path, err := filepath.EvalSymlinks(filepath.Join(root, name))
		if err != nil || seen[path] {
			continue
		}
		seen[path] = true
		found, err := open(path)
		if err == nil && !found.endsWith(own) {
			err = place(path, found, own)
		}
		report(err)
		if err == nil && first.file == nil {
			first = found
		} else {
			found.close()
		}
	}
	path := filepath.Join(root, bundles[0])
	if _, err := os.Lstat(path); len(seen) == 0 && errors.Is(err, fs.ErrNotExist) {
		report(os.MkdirAll(filepath.Dir(path), 0o755))
		report(place(path, bundle{}, own))
	}
	return first
}

// place writes a file.
func place(path string, kept bundle, own []byte) error {
	file, err := write(path, kept, own)
	if err == nil {
		err = file.Close()
	}
	return err
}

// write writes a file in one step: what the bundle keeps, then own. A program that reads it meanwhile reads
// the old file or the new one. The caller closes the file, at the end of what is written.
func write(path string, kept bundle, own []byte) (*os.File, error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".agentpod-")
	if err != nil {
		return nil, err
	}
	err = kept.copyTo(file)
	if err == nil {
		_, err = file.Write(own)
	}
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

func withNewline(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return text + "\n"
}
