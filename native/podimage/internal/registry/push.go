package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"agentpod/podimage/internal/job"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// firstBlob is the descriptor of the lowest layer.
const firstBlob = 3

const uploads = 2

// Pushed is the answer of `push`.
type Pushed struct {
	Digest string `json:"digest"`
}

// Push sends an image whose parts the server made. The registry gets the manifest last, so that it never
// names an incomplete image.
func Push(ctx context.Context, asked job.Job) (any, error) {
	if len(asked.Endpoints) != 1 {
		return nil, job.Errorf(job.InvalidArgument, "job.endpoints", "a push needs one endpoint")
	}
	client, err := NewClient(asked.Endpoints[0], asked.Repository)
	if err != nil {
		return nil, err
	}
	image, err := newFileImage(asked.Push)
	if err != nil {
		return nil, err
	}
	var target name.Reference = client.Repository.Tag(asked.Reference)
	digest := digestOf(asked.Push.Manifest)
	err = remote.Write(target, image, remote.WithContext(ctx), remote.WithAuth(client.Auth), remote.WithTransport(client.Base()), remote.WithJobs(uploads))
	if err != nil {
		return nil, client.explain(err)
	}
	return Pushed{Digest: digest}, nil
}

// fileImage is an image whose layers are open files.
type fileImage struct {
	manifest, config []byte
	parsed           *v1.Manifest
	files            []v1.Layer
}

func newFileImage(push job.Push) (v1.Image, error) {
	parsed, err := v1.ParseManifest(bytes.NewReader(push.Manifest))
	if err != nil {
		return nil, job.Errorf(job.InvalidArgument, "job.manifest", "the manifest is malformed: %v", err)
	}
	image := &fileImage{manifest: push.Manifest, config: push.Config, parsed: parsed}
	for i, layer := range parsed.Layers {
		image.files = append(image.files, &fileLayer{descriptor: layer, file: os.NewFile(uintptr(firstBlob+i), layer.Digest.Hex)})
	}
	return image, nil
}

func (f *fileImage) Layers() ([]v1.Layer, error)         { return f.files, nil }
func (f *fileImage) MediaType() (types.MediaType, error) { return f.parsed.MediaType, nil }
func (f *fileImage) Size() (int64, error)                { return int64(len(f.manifest)), nil }
func (f *fileImage) ConfigName() (v1.Hash, error)        { return f.parsed.Config.Digest, nil }
func (f *fileImage) RawConfigFile() ([]byte, error)      { return f.config, nil }
func (f *fileImage) RawManifest() ([]byte, error)        { return f.manifest, nil }
func (f *fileImage) Manifest() (*v1.Manifest, error)     { return f.parsed, nil }
func (f *fileImage) Digest() (v1.Hash, error)            { return v1.NewHash(digestOf(f.manifest)) }
func (f *fileImage) LayerByDiffID(v1.Hash) (v1.Layer, error) {
	return nil, errors.New("not by diff id")
}
func (f *fileImage) ConfigFile() (*v1.ConfigFile, error) {
	var config v1.ConfigFile
	return &config, json.Unmarshal(f.config, &config)
}

func (f *fileImage) LayerByDigest(digest v1.Hash) (v1.Layer, error) {
	if digest == f.parsed.Config.Digest {
		return partial.ConfigLayer(f)
	}
	for i, layer := range f.parsed.Layers {
		if layer.Digest == digest {
			return f.files[i], nil
		}
	}
	return nil, errors.New("there is no such layer")
}

// fileLayer can be read as often as the library likes.
type fileLayer struct {
	descriptor v1.Descriptor
	file       *os.File
}

func (l *fileLayer) Digest() (v1.Hash, error)            { return l.descriptor.Digest, nil }
func (l *fileLayer) Size() (int64, error)                { return l.descriptor.Size, nil }
func (l *fileLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }
func (l *fileLayer) DiffID() (v1.Hash, error)            { return v1.Hash{}, errors.New("not needed to push") }
func (l *fileLayer) Uncompressed() (io.ReadCloser, error) {
	return nil, errors.New("not needed to push")
}
func (l *fileLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(l.file, 0, l.descriptor.Size)), nil
}
