package layers

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"agentpod/podimage/internal/job"

	"github.com/klauspost/compress/gzip"
)

// Converted describes a layer of an image that is pushed.
type Converted struct {
	Digest string `json:"digest"`
	DiffID string `json:"diffId"`
	Size   int64  `json:"size"`
	// Entries is 0 for a layer without files, which the image leaves out.
	Entries int `json:"entries"`
}

const (
	xattrRecord = "SCHILY.xattr."
	// literalRecord marks a name that looks like a whiteout and is not one; see native/internal/layer.
	literalRecord  = "AGENTPOD.literal"
	whiteoutPrefix = ".wh."
	// trustMark begins what podd adds to a bundle of certificates.
	trustMark = "# AgentPod: "
	maxBundle = 16 << 20
)

// bundles are the files to which podd adds a sandbox's own certificate authority.
var bundles = map[string]bool{
	"etc/ssl/certs/ca-certificates.crt": true, "etc/pki/tls/certs/ca-bundle.crt": true, "etc/ssl/ca-bundle.pem": true, "etc/ssl/cert.pem": true,
}

// Convert rewrites podhost's archive as a layer of an image. The same files give the same bytes: podhost
// sorts the entries, and times after NewestTime are replaced by it.
func Convert(asked job.Job) (any, error) {
	in, out := os.NewFile(inputFile, "archive"), os.NewFile(outputFile, "layer")
	blobSum, diffSum := sha256.New(), sha256.New()
	count := &counter{}
	level := gzip.DefaultCompression
	if asked.Convert.Plain {
		level = gzip.NoCompression
	}
	zipped, err := gzip.NewWriterLevel(io.MultiWriter(out, blobSum, count), level)
	if err != nil {
		return nil, err
	}
	var packed io.Writer = zipped
	if asked.Convert.Plain {
		packed = io.MultiWriter(out, count)
	}
	c := &converter{Convert: asked.Convert, out: tar.NewWriter(io.MultiWriter(packed, diffSum)), dropped: map[string]bool{},
		points: map[string]*tar.Header{}}
	for _, name := range asked.Convert.Points {
		c.points[name] = nil
	}
	for _, name := range asked.Convert.Dropped {
		c.dropped[name] = true
	}
	source, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	if err := c.copy(tar.NewReader(source)); err != nil {
		return nil, err
	}
	if err := c.out.Close(); err != nil {
		return nil, err
	}
	if asked.Convert.Plain {
		return Converted{DiffID: "sha256:" + hex.EncodeToString(diffSum.Sum(nil)), Digest: "sha256:" + hex.EncodeToString(diffSum.Sum(nil)),
			Size: count.bytes, Entries: c.entries}, nil
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return Converted{Digest: "sha256:" + hex.EncodeToString(blobSum.Sum(nil)), DiffID: "sha256:" + hex.EncodeToString(diffSum.Sum(nil)),
		Size: count.bytes, Entries: c.entries}, nil
}

type counter struct{ bytes int64 }

func (c *counter) Write(data []byte) (int, error) {
	c.bytes += int64(len(data))
	return len(data), nil
}

type converter struct {
	job.Convert
	out     *tar.Writer
	dropped map[string]bool
	// points have the headers of directories that are written only if something is in them.
	points  map[string]*tar.Header
	entries int
}

func (c *converter) copy(in *tar.Reader) error {
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.entry(header, in); err != nil {
			return err
		}
	}
}

func (c *converter) entry(header *tar.Header, content io.Reader) error {
	name, inside := c.inside(header.Name)
	if !inside {
		return job.Errorf(job.Unsupported, "image.push_base", "the files lie on directories of this machine and cannot become an image").
			WithHint("build on the base debian, or on an image")
	}
	if name == "" || c.isDropped(name) {
		return nil
	}
	if header.PAXRecords[literalRecord] == "1" {
		return job.Errorf(job.Unsupported, "image.push_name", "the file name %.200q cannot be part of an image: it would hide another file", name).
			WithHint("rename or remove the file")
	}
	next := &tar.Header{Typeflag: header.Typeflag, Name: name, Mode: header.Mode & 0o7777, Uid: header.Uid, Gid: header.Gid, Size: header.Size,
		ModTime: c.time(header.ModTime), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	if header.Typeflag == tar.TypeDir {
		next.Name += "/"
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		next.Linkname = header.Linkname
	case tar.TypeLink:
		next.Linkname, _ = c.inside(header.Linkname)
	}
	for key, value := range header.PAXRecords {
		if strings.HasPrefix(key, xattrRecord) {
			next.PAXRecords[key] = value
		}
	}
	if bundles[name] && header.Typeflag == tar.TypeReg && header.Size <= maxBundle {
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		at := bytes.Index(data, []byte(trustMark))
		if at == 0 {
			// podd made the bundle, because the image has none.
			return nil
		}
		if at > 0 {
			data = data[:at]
		}
		next.Size, content = int64(len(data)), bytes.NewReader(data)
	}
	if _, isPoint := c.points[name]; isPoint && isPlainPoint(next) {
		c.points[name] = next
		return nil
	}
	if err := c.above(name); err != nil {
		return err
	}
	c.entries++
	if err := c.out.WriteHeader(next); err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(c.out, content)
	return err
}

// isPlainPoint reports whether a directory, or an empty file, is as podhost makes what it mounts on.
func isPlainPoint(header *tar.Header) bool {
	isDir := header.Typeflag == tar.TypeDir && header.Mode == 0o755
	isFile := header.Typeflag == tar.TypeReg && header.Size == 0 && header.Mode == 0o644
	return (isDir || isFile) && header.Uid == 0 && header.Gid == 0
}

// above writes the directories above an entry that were held back.
func (c *converter) above(name string) error {
	for at := strings.IndexByte(name, '/'); at >= 0; {
		if dir := name[:at]; c.points[dir] != nil {
			c.entries++
			if err := c.out.WriteHeader(c.points[dir]); err != nil {
				return err
			}
			c.points[dir] = nil
		}
		next := strings.IndexByte(name[at+1:], '/')
		if next < 0 {
			return nil
		}
		at += 1 + next
	}
	return nil
}

// inside removes the prefix. The directory that is the prefix itself has the name "".
func (c *converter) inside(name string) (string, bool) {
	name = strings.Trim(path.Clean("/"+name), "/")
	if c.Prefix == "" {
		return name, true
	}
	if name == c.Prefix || name == "" {
		return "", true
	}
	return strings.TrimPrefix(name, c.Prefix+"/"), strings.HasPrefix(name, c.Prefix+"/")
}

func (c *converter) isDropped(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		if c.dropped[at] {
			return true
		}
	}
	dir, base := path.Split(name)
	hidden, isWhiteout := strings.CutPrefix(base, whiteoutPrefix)
	return isWhiteout && c.dropped[dir+hidden]
}

func (c *converter) time(at time.Time) time.Time {
	if newest := time.Unix(c.NewestTime, 0); at.After(newest) {
		return newest
	}
	return time.Unix(at.Unix(), 0)
}
