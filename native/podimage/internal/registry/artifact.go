package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"agentpod/podimage/internal/job"
)

// An Artifact is a manifest with one layer of a kind that is no image, and the content of that layer.
type Artifact struct {
	// Digest is that of the manifest.
	Digest      string
	Annotations map[string]string
	// Content is the layer, whose size and digest are right.
	Content []byte
}

// FetchArtifact gets an artifact whose layer has one of the media types. Mirrors come before the registry;
// the error is that of the registry.
func FetchArtifact(ctx context.Context, asked job.Job, configType, layerType string, limit int64) (*Artifact, error) {
	var failed error
	for _, endpoint := range asked.Endpoints {
		client, err := NewClient(endpoint, asked.Repository)
		if err == nil {
			var found *Artifact
			if found, err = client.artifact(ctx, asked.Reference, configType, layerType, limit); err == nil {
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

func (c *Client) artifact(ctx context.Context, reference, configType, layerType string, limit int64) (*Artifact, error) {
	digest, found, err := c.document(ctx, reference)
	if err != nil {
		return nil, err
	}
	if found.Manifests != nil || found.Config == nil {
		return nil, c.otherArtifact("an index")
	}
	if found.Config.MediaType != configType {
		return nil, c.otherArtifact("something of the type " + Clean(found.Config.MediaType))
	}
	if len(found.Layers) != 1 || found.Layers[0].MediaType != layerType {
		return nil, c.otherArtifact("something other than one layer of the type " + layerType)
	}
	layer := found.Layers[0]
	if !digestGrammar.MatchString(layer.Digest) || layer.Size < 0 {
		return nil, c.lies("a layer with a malformed digest or size")
	}
	if layer.Size > limit {
		return nil, tooLarge(c.Repository.String(), limit)
	}
	content, err := c.blob(ctx, layer)
	if err != nil {
		return nil, err
	}
	return &Artifact{Digest: digest, Annotations: found.Annotations, Content: content}, nil
}

func (c *Client) otherArtifact(what string) error {
	return job.Errorf(job.Unsupported, "feature.artifact", "%s is not a Feature: the registry has %s", c.Repository, what).
		WithHint("check the name; Features are published with `devcontainer features publish`")
}

func tooLarge(name string, limit int64) error {
	return job.Errorf(job.ResourceExhausted, "feature.too_large", "%s is larger than %d MiB", name, limit>>20).
		WithHint("a Feature is an installation script; what it installs is downloaded by the script")
}

func (c *Client) blob(ctx context.Context, layer descriptor) ([]byte, error) {
	response, err := c.Get(ctx, "/blobs/"+layer.Digest, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, c.status(response.StatusCode, string(said))
	}
	data, err := c.readAll(response.Body, layer.Size, "a layer")
	if err != nil {
		return nil, err
	}
	if found := digestOf(data); found != layer.Digest {
		return nil, c.mismatch("a layer", layer.Digest, found)
	}
	return data, nil
}

// tarballName is how the specification names the file of a Feature.
var tarballName = regexp.MustCompile(`/devcontainer-feature-[A-Za-z0-9._-]{1,100}\.tgz\z`)

// FetchTarball gets a Feature from a web server. The first endpoint says whether plain HTTP is allowed there,
// and which authorities to trust; no credential is sent.
func FetchTarball(ctx context.Context, address string, endpoint job.Endpoint, limit int64) ([]byte, string, error) {
	target, err := url.Parse(address)
	if err != nil || target.User != nil || !tarballName.MatchString(target.Path) || (target.Scheme != "https" && target.Scheme != "http") {
		return nil, "", job.Errorf(job.InvalidArgument, "feature.address", "%s is not the address of a Feature", Clean(address)).
			WithHint("it is https://HOST/PATH/devcontainer-feature-ID.tgz")
	}
	client, err := NewClient(job.Endpoint{Host: target.Host, Insecure: endpoint.Insecure, CA: endpoint.CA}, "feature/tarball")
	if err != nil {
		return nil, "", err
	}
	if target.Scheme != "https" && !endpoint.Insecure {
		return nil, "", job.Errorf(job.InvalidArgument, "feature.insecure", "%s uses plain HTTP, which is refused", Clean(address)).
			WithHint(fmt.Sprintf("use https, or allow plain HTTP in config.toml: [registries.%q] insecure = true", target.Host))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, "", err
	}
	response, err := (&http.Client{Transport: client.Base()}).Do(request)
	if err != nil {
		return nil, "", fetchError(target.Host, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		code, reason := job.Unavailable, "feature.answer"
		if response.StatusCode == http.StatusNotFound {
			code, reason = job.NotFound, "feature.unknown"
		}
		return nil, "", job.Errorf(code, reason, "%s answers %s with the status %d", target.Host, Clean(address), response.StatusCode).
			WithHint("check the address of the Feature")
	}
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(response.Body, limit+1)); err != nil {
		return nil, "", fetchError(target.Host, err)
	}
	if int64(data.Len()) > limit {
		return nil, "", tooLarge(Clean(address), limit)
	}
	return data.Bytes(), digestOf(data.Bytes()), nil
}

func fetchError(host string, err error) error {
	var known *job.Error
	if errors.As(err, &known) {
		return known
	}
	return job.Errorf(job.Unavailable, "registry.unreachable", "%s could not be reached: %s", host, Clean(err.Error())).
		WithHint("check the address and the network")
}
