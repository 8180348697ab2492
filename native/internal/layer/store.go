// Package layer keeps immutable file trees, named by the digest of the tar file they came from.
package layer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/safefs"

	"golang.org/x/sys/unix"
)

// A Store is <home>/layers: <digest>/tree and <digest>/layer.json, complete or absent.
type Store struct {
	Home string
	// Shift is added to every id in a tree; zero if mounts shift ids.
	Shift int
	// UserXattr: sandboxes mount layers as an ordinary user's overlay.
	UserXattr bool
	// Forget is called with a tree's path before the tree is removed.
	Forget func(path string)
	// CheckSpace is called while something large is written.
	CheckSpace safefs.SpaceCheck
}

// Info describes a layer.
type Info struct {
	Digest    string `json:"digest"`
	SizeBytes int64  `json:"sizeBytes"`
}

func (s *Store) layout() Layout { return Layout{Shift: s.Shift, UserXattr: s.UserXattr} }

func (s *Store) dir() string { return filepath.Join(s.Home, "layers") }

func (s *Store) info(digest string) (Info, bool) {
	var info Info
	data, err := os.ReadFile(filepath.Join(s.dir(), digest, "layer.json"))
	return info, err == nil && json.Unmarshal(data, &info) == nil && info.Digest == digest
}

// Import unpacks <home>/tmp/<file>, a tar file, compressed with gzip or not, whose sha256 must be digest. It
// keeps a layer that exists already. The caller serialises calls for one digest.
func (s *Store) Import(digest, file string) (Info, error) {
	if info, there := s.info(digest); there {
		return info, nil
	}
	source, err := OpenFile(s.Home, file)
	if err != nil {
		return Info{}, err
	}
	defer source.Close()
	suffix := make([]byte, 8)
	if _, err := rand.Read(suffix); err != nil {
		return Info{}, err
	}
	name := ".tmp-" + hex.EncodeToString(suffix)
	info, err := s.unpack(source, name, digest)
	if err == nil {
		err = s.publish(name, info)
	}
	if err != nil {
		safefs.RemoveTree(s.dir(), name)
		return Info{}, err
	}
	return info, nil
}

// Export writes a layer as a gzip tar to <home>/tmp/<file>.
func (s *Store) Export(digest, file string) (Written, error) {
	if _, there := s.info(digest); !there {
		return Written{}, hostproto.Errorf(hostproto.NotFound, "layer.absent", "there is no layer %s", digest)
	}
	return WriteArchive(filepath.Join(s.Home, "tmp", file), filepath.Join(s.dir(), digest, "tree"), s.layout(), s.CheckSpace)
}

func (s *Store) unpack(source io.Reader, name, digest string) (Info, error) {
	tree := filepath.Join(s.dir(), name, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return Info{}, err
	}
	if err := os.Chmod(filepath.Join(s.dir(), name), 0o700); err != nil {
		return Info{}, err
	}
	sum := sha256.New()
	hashed := bufio.NewReaderSize(io.TeeReader(source, sum), 256<<10)
	content := io.Reader(hashed)
	if magic, _ := hashed.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zipped, err := gzip.NewReader(hashed)
		if err != nil {
			return Info{}, invalid("%v", err)
		}
		content = zipped
	}
	x, err := newExtractor(tree, s.layout(), s.CheckSpace)
	if err != nil {
		return Info{}, err
	}
	defer x.close()
	if err := x.extract(content); err != nil {
		return Info{}, err
	}
	// The digest is that of the whole file, including data after the archive's end.
	if _, err := io.Copy(io.Discard, hashed); err != nil {
		return Info{}, err
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != digest {
		return Info{}, hostproto.Errorf(hostproto.DataLoss, "layer.digest_mismatch", "the sha256 of the file is %s, not %s", found, digest)
	}
	return Info{Digest: digest, SizeBytes: x.bytes}, nil
}

// publish syncs the file system and gives the layer its name: a layer that exists after a crash is complete.
func (s *Store) publish(name string, info Info) error {
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir(), name, "layer.json"), data, 0o600); err != nil {
		return err
	}
	dir, err := os.Open(s.dir())
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir(), name), filepath.Join(s.dir(), info.Digest)); err != nil {
		return err
	}
	return dir.Sync()
}

// List returns every layer.
func (s *Store) List() ([]Info, error) {
	entries, err := os.ReadDir(s.dir())
	if err != nil {
		return nil, err
	}
	layers := []Info{}
	for _, entry := range entries {
		if info, there := s.info(entry.Name()); hostproto.IsDigest(entry.Name()) && there {
			layers = append(layers, info)
		}
	}
	return layers, nil
}

// Remove removes a layer that nothing uses. It succeeds if there is none. The name goes first, so that an
// incomplete layer is never found.
func (s *Store) Remove(digest string) error {
	s.Forget(filepath.Join(s.dir(), digest, "tree"))
	gone := ".tmp-" + digest
	if err := os.Rename(filepath.Join(s.dir(), digest), filepath.Join(s.dir(), gone)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return safefs.RemoveTree(s.dir(), gone)
}

// Sweep removes what interrupted imports and removals left behind.
func (s *Store) Sweep() error {
	entries, err := os.ReadDir(s.dir())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".tmp-") {
			if err := safefs.RemoveTree(s.dir(), entry.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Has reports whether a layer exists.
func (s *Store) Has(digest string) bool {
	_, there := s.info(digest)
	return there
}
