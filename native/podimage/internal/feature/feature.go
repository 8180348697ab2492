// Package feature gets Features of development containers. What comes out is a clean archive: only regular
// files, directories and links that stay inside, with fixed times and owners. It is unpacked in a sandbox.
package feature

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"agentpod/podimage/internal/job"
	"agentpod/podimage/internal/registry"
)

const (
	configType = "application/vnd.devcontainers"
	layerType  = "application/vnd.devcontainers.layer.v1+tar"
	annotation = "dev.containers.metadata"
	metadata   = "devcontainer-feature.json"
	script     = "install.sh"
	outputFile = 3
)

const (
	maxBlob     = 16 << 20
	maxUnpacked = 32 << 20
	maxEntries  = 5000
	maxMetadata = 1 << 20
	maxName     = 500
)

// fixedTime makes the archive depend on content alone. It is that of sync/tar.ts.
var fixedTime = time.Unix(1_000_000_000, 0)

// A Request names a tarball by its address; without one, the job's repository and reference name an artifact.
type Request struct {
	URL string `json:"url,omitempty"`
}

// Fetched is the answer of `feature`. The archive is on descriptor 3.
type Fetched struct {
	// Digest is that of the manifest, or of the tarball.
	Digest string `json:"digest"`
	// Metadata is devcontainer-feature.json, or what the manifest says it is.
	Metadata      string `json:"metadata"`
	ArchiveDigest string `json:"archiveDigest"`
	SizeBytes     int64  `json:"sizeBytes"`
}

func Fetch(ctx context.Context, asked job.Job, request Request) (any, error) {
	out := os.NewFile(outputFile, "archive")
	if out == nil {
		return nil, job.Errorf(job.InvalidArgument, "job.files", "there is no file for the archive")
	}
	defer out.Close()
	var content []byte
	var digest, said string
	if request.URL != "" {
		var endpoint job.Endpoint
		if len(asked.Endpoints) > 0 {
			endpoint = asked.Endpoints[len(asked.Endpoints)-1]
		}
		var err error
		if content, digest, err = registry.FetchTarball(ctx, request.URL, endpoint, maxBlob); err != nil {
			return nil, err
		}
	} else {
		found, err := registry.FetchArtifact(ctx, asked, configType, layerType, maxBlob)
		if err != nil {
			return nil, err
		}
		content, digest, said = found.Content, found.Digest, found.Annotations[annotation]
	}
	cleaned, err := clean(content, out)
	if err != nil {
		return nil, err
	}
	if said == "" {
		said = cleaned.metadata
	}
	if said == "" || len(said) > maxMetadata {
		return nil, job.Errorf(job.InvalidArgument, "feature.metadata", "the Feature has no %s, or one of more than %d bytes", metadata, maxMetadata)
	}
	if !cleaned.hasScript {
		return nil, job.Errorf(job.InvalidArgument, "feature.script", "the Feature has no %s", script).
			WithHint("ask its author; `devcontainer features package` refuses such a Feature")
	}
	return Fetched{Digest: digest, Metadata: said, ArchiveDigest: hex.EncodeToString(cleaned.sum.Sum(nil)), SizeBytes: cleaned.size}, nil
}

type cleaned struct {
	metadata  string
	hasScript bool
	sum       hash.Hash
	size      int64
	// content is how much the files have in all.
	content int64
	// kinds are the entries so far, by name.
	kinds map[string]byte
}

func (c *cleaned) Write(data []byte) (int, error) {
	c.size += int64(len(data))
	return c.sum.Write(data)
}

// clean reads a tar file, compressed or not whatever its media type says, and writes the clean one.
func clean(content []byte, out io.Writer) (*cleaned, error) {
	source := io.Reader(bytes.NewReader(content))
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(source)
		if err != nil {
			return nil, malformed(err)
		}
		defer unzipped.Close()
		source = unzipped
	}
	// SECURITY: IM-04. A small archive must not fill the disk or the memory.
	limited := &limitedReader{inner: source, left: maxUnpacked}
	reader := tar.NewReader(limited)
	result := &cleaned{sum: sha256.New(), kinds: map[string]byte{}}
	writer := tar.NewWriter(io.MultiWriter(out, result))
	for entries := 0; ; entries++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		if entries == maxEntries {
			return nil, job.Errorf(job.ResourceExhausted, "feature.files", "the archive of the Feature has more than %d entries", maxEntries)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := nameOf(header.Name)
		if err != nil {
			return nil, err
		}
		if name == "." {
			continue
		}
		if err := result.add(writer, reader, header, name); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return result, nil
}

func (c *cleaned) add(writer *tar.Writer, reader io.Reader, header *tar.Header, name string) error {
	if err := c.admit(header, name); err != nil {
		return err
	}
	entry := tar.Header{Name: name, Mode: 0o755, ModTime: fixedTime}
	switch header.Typeflag {
	case tar.TypeDir:
		entry.Typeflag, entry.Name = tar.TypeDir, name+"/"
	case tar.TypeReg:
		entry.Typeflag, entry.Size = tar.TypeReg, header.Size
		if header.Mode&0o111 == 0 {
			entry.Mode = 0o644
		}
	case tar.TypeSymlink:
		target := path.Join("/", path.Dir(name), header.Linkname)
		// path.Join stops at the root, so a link that leads above it is found by its depth.
		if strings.HasPrefix(header.Linkname, "/") || depth(path.Dir(name), header.Linkname) < 0 || !isPlain(target) {
			return unsafe("a link %q that leads out of it", header.Name)
		}
		entry.Typeflag, entry.Linkname = tar.TypeSymlink, header.Linkname
	case tar.TypeLink:
		target, err := nameOf(header.Linkname)
		if err != nil || c.kinds[target] != tar.TypeReg {
			return unsafe("a hard link %q to something that is no earlier file of it", header.Name)
		}
		entry.Typeflag, entry.Linkname = tar.TypeLink, target
	default:
		return unsafe("an entry %q that is no file, directory or link", header.Name)
	}
	c.kinds[name] = entry.Typeflag
	if err := writer.WriteHeader(&entry); err != nil {
		return err
	}
	if entry.Typeflag != tar.TypeReg {
		return nil
	}
	c.hasScript = c.hasScript || name == script
	target := io.Writer(writer)
	var text bytes.Buffer
	if name == metadata && header.Size <= maxMetadata {
		target = io.MultiWriter(writer, &text)
	}
	if _, err := io.Copy(target, reader); err != nil {
		return malformed(err)
	}
	if text.Len() > 0 {
		c.metadata = text.String()
	}
	return nil
}

// admit refuses entries that no Feature needs, and that would make more of the archive than there is in it.
//
// SECURITY: IM-04. The holes of a sparse file are no input, so the reader's limit does not count them. A link
// through another link may lead out, and so does what lies below it.
func (c *cleaned) admit(header *tar.Header, name string) error {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return unsafe("a sparse file %q", header.Name)
		}
	}
	if c.content += max(header.Size, 0); c.content > maxUnpacked {
		return bomb()
	}
	if c.passesLink(".", name) || header.Typeflag == tar.TypeSymlink && c.passesLink(path.Dir(name), header.Linkname) {
		return unsafe("an entry %q that lies below a link, replaces one or leads through one", header.Name)
	}
	return nil
}

// passesLink reports whether a path from a directory has a link on its way or at its end.
func (c *cleaned) passesLink(at, way string) bool {
	for _, part := range strings.Split(way, "/") {
		if at = path.Join(at, part); c.kinds[at] == tar.TypeSymlink {
			return true
		}
	}
	return false
}

// nameOf refuses a name that leads out of the archive's directory.
func nameOf(text string) (string, error) {
	name := path.Clean(text)
	isOutside := path.IsAbs(text) || name == ".." || strings.HasPrefix(name, "../")
	if isOutside || len(text) > maxName || !isPlain(text) {
		return "", unsafe("an entry named %.100q", text)
	}
	return name, nil
}

func isPlain(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// depth is how deep a link leads at its highest point, from the top of the archive.
func depth(directory, target string) int {
	at := 0
	if directory != "." {
		at = strings.Count(directory, "/") + 1
	}
	lowest := at
	for _, part := range strings.Split(target, "/") {
		switch part {
		case "", ".":
		case "..":
			at--
		default:
			at++
		}
		lowest = min(lowest, at)
	}
	return lowest
}

func unsafe(format string, args ...any) error {
	known := job.Errorf(job.InvalidArgument, "feature.archive", "the archive of the Feature has "+format, args...)
	known.Message = registry.Clean(known.Message)
	return known.WithHint("nothing of it was used; ask the author of the Feature")
}

func malformed(err error) error {
	var known *job.Error
	if errors.As(err, &known) {
		return known
	}
	return job.Errorf(job.DataLoss, "feature.damaged", "the archive of the Feature cannot be read: %s", registry.Clean(err.Error())).
		WithHint("publish it again with `devcontainer features publish`")
}

func bomb() error {
	return job.Errorf(job.ResourceExhausted, "feature.bomb", "the archive of the Feature unpacks to more than %d MiB", maxUnpacked>>20).
		WithHint("such an archive is either damaged or made to fill the disk; it was not used")
}

type limitedReader struct {
	inner io.Reader
	left  int64
}

func (l *limitedReader) Read(data []byte) (int, error) {
	if l.left <= 0 {
		return 0, bomb()
	}
	if int64(len(data)) > l.left {
		data = data[:l.left]
	}
	n, err := l.inner.Read(data)
	l.left -= int64(n)
	return n, err
}
