package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"agentpod/podimage/internal/job"
)

const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	// maxEntries bounds the platforms of an index.
	maxEntries = 1000
)

const (
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

var accepted = strings.Join([]string{ociIndex, ociManifest, dockerIndex, dockerManifest}, ", ")

var digestGrammar = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)

// layerTypes are the media types of layers that can be unpacked. Layers that may not be passed on are fetched
// like others: a registry that has them serves them.
var layerTypes = map[string]bool{
	"application/vnd.oci.image.layer.v1.tar":                       true,
	"application/vnd.oci.image.layer.v1.tar+gzip":                  true,
	"application/vnd.oci.image.layer.v1.tar+zstd":                  true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar":      true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd": true,
	"application/vnd.docker.image.rootfs.diff.tar":                 true,
	"application/vnd.docker.image.rootfs.diff.tar.gzip":            true,
	"application/vnd.docker.image.rootfs.diff.tar.zstd":            true,
	"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip":    true,
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant"`
}

func (p platform) String() string {
	return job.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant}.String()
}

// document is a manifest or an index; which one it is depends on its fields, and on its media type.
type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config"`
	Layers        []descriptor `json:"layers"`
	Manifests     []descriptor `json:"manifests"`
	// Annotations are read of artifacts only.
	Annotations map[string]string `json:"annotations"`
}

// ImageConfig has the parts of an image's configuration that AgentPod uses.
type ImageConfig struct {
	OS           string         `json:"os"`
	Architecture string         `json:"architecture"`
	Variant      string         `json:"variant,omitempty"`
	Created      string         `json:"created,omitempty"`
	Config       containerParts `json:"config"`
	RootFS       struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	raw string
}

type containerParts struct {
	User         string              `json:"User,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
}

// Resolved is an image of one platform.
type Resolved struct {
	// Endpoint is the place in the job's list that answered.
	Endpoint int `json:"endpoint"`
	// Digest is what the reference stands for: the digest of an index, or of a manifest.
	Digest         string      `json:"digest"`
	ManifestDigest string      `json:"manifestDigest"`
	ConfigDigest   string      `json:"configDigest"`
	Config         ImageConfig `json:"config"`
	// RawConfig is the whole configuration, for builds on the image.
	RawConfig string      `json:"rawConfig"`
	Layers    []job.Layer `json:"layers"`
}

// Resolve finds the image of a platform that a reference stands for. Mirrors come before the registry; the
// error is that of the registry.
func Resolve(ctx context.Context, asked job.Job) (any, error) {
	var failed error
	for at, endpoint := range asked.Endpoints {
		client, err := NewClient(endpoint, asked.Repository)
		if err == nil {
			var found *Resolved
			if found, err = client.resolve(ctx, asked); err == nil {
				found.Endpoint = at
				return found, nil
			}
		}
		if isFinal(err) {
			return nil, err
		}
		failed = err
	}
	return nil, failed
}

// isFinal: another endpoint has the same bytes, so it would fail in the same way.
func isFinal(err error) bool {
	var known *job.Error
	return errors.As(err, &known) && (known.Code == job.Unsupported || known.Code == job.ResourceExhausted && known.Reason != "registry.rate_limit")
}

func (c *Client) resolve(ctx context.Context, asked job.Job) (*Resolved, error) {
	digest, found, err := c.document(ctx, asked.Reference)
	if err != nil {
		return nil, err
	}
	manifestDigest := digest
	if found.Manifests != nil {
		chosen, err := c.choose(found.Manifests, asked.Platform)
		if err != nil {
			return nil, err
		}
		if manifestDigest, found, err = c.document(ctx, chosen.Digest); err != nil {
			return nil, err
		}
		if found.Manifests != nil {
			return nil, c.lies("an index that contains another index")
		}
	}
	if found.Config == nil || !digestGrammar.MatchString(found.Config.Digest) {
		return nil, c.lies("a manifest without a configuration")
	}
	if isArtifact(found) {
		return nil, job.Errorf(job.Unsupported, "image.artifact", "%s is not a container image: its configuration has the type %s", c.Repository, Clean(found.Config.MediaType)).
			WithHint("name an image; charts, signatures and other artifacts cannot run")
	}
	config, err := c.config(ctx, *found.Config)
	if err != nil {
		return nil, err
	}
	if err := c.checkPlatform(config, asked.Platform); err != nil {
		return nil, err
	}
	layers, err := c.layers(found.Layers, config.RootFS.DiffIDs, asked.Limits)
	if err != nil {
		return nil, err
	}
	return &Resolved{Digest: digest, ManifestDigest: manifestDigest, ConfigDigest: found.Config.Digest, Config: *config, RawConfig: config.raw, Layers: layers}, nil
}

func isArtifact(found *document) bool {
	kind := found.Config.MediaType
	return kind != "application/vnd.oci.image.config.v1+json" && kind != "application/vnd.docker.container.image.v1+json"
}

// lies is the error for an answer that a correct registry never gives.
func (c *Client) lies(format string, args ...any) error {
	return job.Errorf(job.DataLoss, "registry.malformed", "the registry %s sent %s for %s", c.Endpoint.Host, fmt.Sprintf(format, args...), c.Repository.RepositoryStr()).
		WithHint("nothing of it was used; the registry, or a proxy before it, is broken")
}

// document fetches a manifest or an index by tag or digest, and checks its digest.
func (c *Client) document(ctx context.Context, reference string) (string, *document, error) {
	response, err := c.Get(ctx, "/manifests/"+reference, http.Header{"Accept": {accepted}})
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		err := c.status(response.StatusCode, string(said))
		var known *job.Error
		if errors.As(err, &known) && known.Reason == "image.unknown" {
			known.Message = fmt.Sprintf("the registry %s does not have %s", c.Endpoint.Host, c.named(reference))
		}
		return "", nil, err
	}
	data, err := c.readAll(response.Body, maxManifest, "a manifest")
	if err != nil {
		return "", nil, err
	}
	digest := digestOf(data)
	if strings.HasPrefix(reference, "sha256:") {
		if digest != reference {
			return "", nil, c.mismatch("a manifest", reference, digest)
		}
	} else if said := response.Header.Get("Docker-Content-Digest"); said != "" && said != digest && strings.HasPrefix(said, "sha256:") {
		return "", nil, c.mismatch("a manifest", Clean(said), digest)
	}
	found, err := c.parse(data, response.Header.Get("Content-Type"))
	return digest, found, err
}

func (c *Client) named(reference string) string {
	if strings.HasPrefix(reference, "sha256:") {
		return c.Repository.RepositoryStr() + "@" + reference
	}
	return c.Repository.RepositoryStr() + ":" + reference
}

// parse decides by the content what a document is, and refuses one that could be read in two ways.
func (c *Client) parse(data []byte, header string) (*document, error) {
	var found document
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, c.lies("a manifest that is not JSON")
	}
	if found.SchemaVersion == 1 {
		return nil, job.Errorf(job.Unsupported, "image.schema1", "%s is stored in Docker's first format, which is no longer in use", c.Repository).
			WithHint("push it again with a current Docker")
	}
	stated, _, _ := mime.ParseMediaType(header)
	isKnown := strings.Contains(accepted, stated) && stated != ""
	if found.MediaType != "" && isKnown && stated != found.MediaType {
		return nil, c.lies("a manifest of the type %s as %s", Clean(found.MediaType), Clean(stated))
	}
	kind := found.MediaType
	if kind == "" && isKnown {
		kind = stated
	}
	isIndex := found.Manifests != nil
	if isIndex == (found.Layers != nil || found.Config != nil) {
		return nil, c.lies("a document that is neither a manifest nor an index")
	}
	if kind != "" && isIndex != (kind == ociIndex || kind == dockerIndex) {
		return nil, c.lies("a manifest of the wrong type %s", Clean(kind))
	}
	return &found, nil
}

// choose takes the entry for a platform. Attestations have no platform that anything runs on.
func (c *Client) choose(entries []descriptor, wanted job.Platform) (descriptor, error) {
	if len(entries) > maxEntries {
		return descriptor{}, c.lies("an index of %d entries", len(entries))
	}
	var found *descriptor
	var others []string
	for i := range entries {
		entry := &entries[i]
		if entry.Platform == nil || entry.Platform.OS == "unknown" || entry.Annotations["vnd.docker.reference.type"] == "attestation-manifest" {
			continue
		}
		isSame := entry.Platform.OS == wanted.OS && entry.Platform.Architecture == wanted.Architecture
		switch {
		case isSame && isVariant(entry.Platform.Variant, wanted):
			if found == nil || entry.Platform.Variant == wanted.Variant {
				found = entry
			}
		case len(others) < 20:
			others = append(others, Clean(entry.Platform.String()))
		}
	}
	if found == nil && len(others) == 0 && len(entries) == 1 {
		// An index of one image that names no platform; its configuration does.
		found = &entries[0]
	}
	if found == nil {
		return descriptor{}, noPlatform(c, wanted, strings.Join(others, ", "))
	}
	if !digestGrammar.MatchString(found.Digest) {
		return descriptor{}, c.lies("an index with a malformed digest")
	}
	return *found, nil
}

// isVariant: amd64 has levels that a machine may lack, so only the plain one is taken; arm64 has v8 alone.
func isVariant(variant string, wanted job.Platform) bool {
	switch variant {
	case "", wanted.Variant:
		return true
	case "v8":
		return wanted.Architecture == "arm64"
	case "v1":
		return wanted.Architecture == "amd64"
	}
	return false
}

func noPlatform(c *Client, wanted job.Platform, others string) error {
	if others == "" {
		others = "none"
	}
	return job.Errorf(job.Unsupported, "image.platform", "%s has no image for %s", c.Repository, wanted).
		WithHint("it has images for: " + others)
}

func (c *Client) checkPlatform(config *ImageConfig, wanted job.Platform) error {
	if config.OS == wanted.OS && config.Architecture == wanted.Architecture {
		return nil
	}
	return noPlatform(c, wanted, Clean(job.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}.String()))
}

func (c *Client) config(ctx context.Context, from descriptor) (*ImageConfig, error) {
	if from.Size < 0 || from.Size > maxConfig {
		return nil, c.lies("a configuration of %d bytes", from.Size)
	}
	response, err := c.Get(ctx, "/blobs/"+from.Digest, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, c.status(response.StatusCode, string(said))
	}
	data, err := c.readAll(response.Body, maxConfig, "a configuration")
	if err != nil {
		return nil, err
	}
	if digest := digestOf(data); digest != from.Digest {
		return nil, c.mismatch("a configuration", from.Digest, digest)
	}
	if int64(len(data)) != from.Size {
		return nil, c.lies("a configuration of %d bytes and announced %d", len(data), from.Size)
	}
	var config ImageConfig
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&config); err != nil {
		return nil, c.lies("a configuration that is not valid")
	}
	config.raw = string(data)
	return &config, nil
}

func (c *Client) layers(found []descriptor, diffIDs []string, limits job.Limits) ([]job.Layer, error) {
	if len(found) > limits.Layers {
		return nil, job.Errorf(job.Unsupported, "image.layers", "%s has %d layers; at most %d are supported", c.Repository, len(found), limits.Layers).
			WithHint("merge layers, for example by copying everything into one stage at the end of its Dockerfile")
	}
	if len(found) != len(diffIDs) {
		return nil, c.lies("%d layers and a configuration for %d", len(found), len(diffIDs))
	}
	layers := make([]job.Layer, 0, len(found))
	var total int64
	for i, one := range found {
		if !layerTypes[one.MediaType] {
			return nil, job.Errorf(job.Unsupported, "image.media_type", "a layer of %s has the type %s, which cannot be unpacked", c.Repository, Clean(one.MediaType)).
				WithHint("layers are tar files, plain or compressed with gzip or zstd")
		}
		if !digestGrammar.MatchString(one.Digest) || !digestGrammar.MatchString(diffIDs[i]) || one.Size < 0 {
			return nil, c.lies("a layer with a malformed digest or size")
		}
		if total += one.Size; total > limits.ImageBytes || one.Size > limits.ImageBytes {
			return nil, job.Errorf(job.ResourceExhausted, "image.too_large", "%s is larger than %d GiB", c.Repository, limits.ImageBytes>>30)
		}
		layers = append(layers, job.Layer{Digest: one.Digest, Size: one.Size, MediaType: one.MediaType, DiffID: diffIDs[i]})
	}
	return layers, nil
}

func (c *Client) readAll(body io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, c.explain(err)
	}
	if int64(len(data)) > limit {
		return nil, c.lies("%s of more than %d bytes", what, limit)
	}
	return data, nil
}

// SECURITY: IM-03. What a digest names is used only if it has that digest.
func (c *Client) mismatch(what, wanted, found string) error {
	return job.Errorf(job.DataLoss, "image.digest", "the registry %s sent %s with the digest %s instead of %s", c.Endpoint.Host, what, found, wanted).
		WithHint("nothing of it was used; the registry, or a proxy before it, is broken")
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
