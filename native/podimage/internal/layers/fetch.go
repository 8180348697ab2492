// Package layers turns blobs of registries into tar files and back.
package layers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"

	"agentpod/podimage/internal/job"
	"agentpod/podimage/internal/registry"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Descriptors of the jobs that work on one layer.
const (
	inputFile  = 3
	outputFile = 4
)

const (
	// A layer may be this many times larger than its blob, beyond a first part that is always allowed.
	mostGrowth = 200
	freeGrowth = 256 << 20
	// maxWindow is what zstd's own program accepts without an option.
	maxWindow = 128 << 20
)

// Fetched is the answer of `layer`.
type Fetched struct {
	SizeBytes int64 `json:"sizeBytes"`
}

// Fetch downloads a blob into descriptor 3 and writes its unpacked tar file to descriptor 4.
func Fetch(ctx context.Context, asked job.Job) (any, error) {
	blob, tar := os.NewFile(inputFile, "blob"), os.NewFile(outputFile, "tar")
	if err := registry.Download(ctx, asked, blob); err != nil {
		return nil, err
	}
	size, err := unpack(blob, tar, asked.Layer, asked.Limits.UnpackedBytes)
	return Fetched{SizeBytes: size}, err
}

// unpack decompresses a blob whose digest is right, and checks the digest of what comes out.
func unpack(blob io.ReaderAt, out io.Writer, layer job.Layer, limit int64) (int64, error) {
	source := bufio.NewReaderSize(io.NewSectionReader(blob, 0, layer.Size), 256<<10)
	content, closing, err := decompressor(source, layer.MediaType)
	if err != nil {
		return 0, err
	}
	defer closing()
	if most := layer.Size*mostGrowth + freeGrowth; most < limit {
		limit = most
	}
	sum := sha256.New()
	written, err := io.CopyBuffer(io.MultiWriter(out, sum), struct{ io.Reader }{io.LimitReader(content, limit+1)}, make([]byte, 256<<10))
	// SECURITY: IM-04. A small blob must not fill the disk.
	if written > limit {
		return 0, job.Errorf(job.ResourceExhausted, "image.bomb", "a layer of %d bytes unpacks to more than %d bytes", layer.Size, limit).
			WithHint("such a layer is either damaged or made to fill the disk; it was not used")
	}
	if err != nil {
		return 0, unpackError(err)
	}
	if found := "sha256:" + hex.EncodeToString(sum.Sum(nil)); found != layer.DiffID {
		return 0, job.Errorf(job.DataLoss, "image.diff_id", "a layer unpacks to the digest %s; the image's configuration says %s", found, layer.DiffID).
			WithHint("the image is damaged; push it again")
	}
	return written, nil
}

func unpackError(err error) error {
	var host *os.PathError
	if errors.As(err, &host) {
		return job.Errorf(job.ResourceExhausted, "disk.full", "a layer could not be written: %v", host.Err).WithHint("free some disk space and try again")
	}
	return job.Errorf(job.DataLoss, "image.damaged", "a layer cannot be unpacked: %v", registry.Clean(err.Error())).
		WithHint("the image is damaged; push it again")
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// decompressor reads what the media type says, and refuses a blob that is something else.
func decompressor(source *bufio.Reader, mediaType string) (io.Reader, func(), error) {
	magic, _ := source.Peek(4)
	found := "tar"
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		found = "gzip"
	case bytes.HasPrefix(magic, zstdMagic):
		found = "zstd"
	}
	stated := "tar"
	if strings.HasSuffix(mediaType, "gzip") {
		stated = "gzip"
	} else if strings.HasSuffix(mediaType, "zstd") {
		stated = "zstd"
	}
	if found != stated {
		return nil, nil, job.Errorf(job.DataLoss, "image.media_type", "a layer of the type %s contains %s", registry.Clean(mediaType), found).
			WithHint("the image is damaged; push it again")
	}
	switch found {
	case "gzip":
		reader, err := gzip.NewReader(source)
		if err != nil {
			return nil, nil, unpackError(err)
		}
		return reader, func() { reader.Close() }, nil
	case "zstd":
		reader, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, unpackError(err)
		}
		return reader, reader.Close, nil
	}
	return source, func() {}, nil
}
