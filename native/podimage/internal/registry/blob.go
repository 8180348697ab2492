package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"time"

	"agentpod/podimage/internal/job"
)

const (
	// quietTime is how long a download may be silent before it is begun again.
	quietTime = 60 * time.Second
	// mostStalls is how many times in a row a download may stop without a new byte.
	mostStalls  = 5
	reportEvery = 500 * time.Millisecond
)

// Download writes a blob to a file that may contain its beginning, from the first endpoint that has it. When
// it returns nil, the file is the blob: its size and its digest are right.
func Download(ctx context.Context, asked job.Job, file *os.File) error {
	var failed error
	for at, endpoint := range asked.Endpoints {
		client, err := NewClient(endpoint, asked.Repository)
		if err == nil {
			one := &download{client: client, layer: asked.Layer, file: file, stalls: mostStalls}
			if at < len(asked.Endpoints)-1 {
				// A mirror that does not answer costs no time.
				one.stalls = 1
			}
			err = one.run(ctx)
		}
		if err == nil {
			return nil
		}
		failed = err
	}
	return failed
}

type download struct {
	client *Client
	layer  job.Layer
	file   *os.File
	sum    hash.Hash
	offset int64
	stalls int
	told   time.Time
}

func (d *download) run(ctx context.Context) error {
	if err := d.readExisting(); err != nil {
		return err
	}
	for stalls := 0; d.offset < d.layer.Size; {
		before := d.offset
		err := d.more(ctx)
		if err != nil && !isTransient(err) {
			return err
		}
		if d.offset > before {
			stalls = 0
			continue
		}
		if stalls++; stalls >= d.stalls {
			if err == nil {
				err = d.client.lies("only %d of %d bytes of a layer", d.offset, d.layer.Size)
			}
			return err
		}
		select {
		case <-time.After(time.Duration(stalls) * time.Second):
		case <-ctx.Done():
			return d.client.explain(ctx.Err())
		}
	}
	if digest := "sha256:" + hex.EncodeToString(d.sum.Sum(nil)); digest != d.layer.Digest {
		// The next try begins with an empty file.
		if err := d.file.Truncate(0); err != nil {
			return err
		}
		return d.client.mismatch("a layer", d.layer.Digest, digest)
	}
	job.Received(d.offset)
	return nil
}

// readExisting continues an earlier download. Its bytes are checked with the rest.
func (d *download) readExisting() error {
	d.sum, d.offset = sha256.New(), 0
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > d.layer.Size {
		return d.file.Truncate(0)
	}
	d.offset, err = io.Copy(d.sum, io.NewSectionReader(d.file, 0, info.Size()))
	return err
}

func (d *download) restart() error {
	d.sum, d.offset = sha256.New(), 0
	return d.file.Truncate(0)
}

// isTransient: the transfer broke, and the rest may come with the next request.
func isTransient(err error) bool {
	var known *job.Error
	return !errors.As(err, &known) || known.Code == job.Unavailable && (known.Reason == "registry.unreachable" || known.Reason == "registry.answer")
}

// more asks for the missing part and writes what arrives.
func (d *download) more(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	header := http.Header{}
	if d.offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.offset))
	}
	response, err := d.client.Get(ctx, "/blobs/"+d.layer.Digest, header)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		if d.offset > 0 {
			if err := d.restart(); err != nil {
				return err
			}
		}
	case http.StatusPartialContent:
		var from int64
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-", &from); err != nil || from != d.offset {
			return d.restart()
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return d.restart()
	default:
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return d.client.status(response.StatusCode, string(said))
	}
	if length := response.ContentLength; length >= 0 && d.offset+length != d.layer.Size {
		return d.client.lies("a layer of %d bytes and announced %d", d.offset+length, d.layer.Size)
	}
	quiet := time.AfterFunc(quietTime, cancel)
	defer quiet.Stop()
	buffer := make([]byte, 128<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			quiet.Reset(quietTime)
			if d.offset+int64(n) > d.layer.Size {
				return d.client.lies("more than the announced %d bytes of a layer", d.layer.Size)
			}
			if _, err := d.file.WriteAt(buffer[:n], d.offset); err != nil {
				return diskError(err)
			}
			d.sum.Write(buffer[:n])
			d.offset += int64(n)
			if time.Since(d.told) > reportEvery {
				d.told = time.Now()
				job.Received(d.offset)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return d.client.explain(err)
		}
	}
}

func diskError(err error) error {
	return job.Errorf(job.ResourceExhausted, "disk.full", "a layer could not be written: %v", err).
		WithHint("free some disk space and try again: the download continues where it stopped")
}
