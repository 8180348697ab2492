// Package registry asks registries for images, and sends images to them.
package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"agentpod/podimage/internal/job"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	connectTime = 20 * time.Second
	answerTime  = 60 * time.Second
)

// A Client asks one endpoint about one repository.
type Client struct {
	Repository name.Repository
	Endpoint   job.Endpoint
	Auth       authn.Authenticator
	base       http.RoundTripper
	http       *http.Client
}

// NewClient prepares a client without asking anything.
func NewClient(endpoint job.Endpoint, repository string) (*Client, error) {
	options := []name.Option{name.StrictValidation}
	if endpoint.Insecure {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(endpoint.Host+"/"+repository, options...)
	if err != nil {
		return nil, job.Errorf(job.InvalidArgument, "image.reference", "%v", err)
	}
	trust, err := trusted(endpoint)
	if err != nil {
		return nil, err
	}
	plain := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSHandshakeTimeout:    connectTime,
		ResponseHeaderTimeout:  answerTime,
		MaxResponseHeaderBytes: 256 << 10,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
	}
	guarded := &guard{inner: plain, host: repo.RegistryStr(), insecure: endpoint.Insecure, realms: map[string]bool{}}
	return &Client{Repository: repo, Endpoint: endpoint, Auth: authOf(endpoint.Auth), base: &patient{inner: guarded}}, nil
}

func trusted(endpoint job.Endpoint) (*x509.CertPool, error) {
	if endpoint.CA == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(endpoint.CA)) {
		return nil, job.Errorf(job.InvalidArgument, "registry.ca", "the certificate authority of the registry %s is not a PEM file", endpoint.Host)
	}
	return pool, nil
}

func authOf(auth *job.Auth) authn.Authenticator {
	if auth == nil {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken})
}

// Base is the transport without authentication.
func (c *Client) Base() http.RoundTripper { return c.base }

// open authenticates for an action (pull, or push and pull).
func (c *Client) open(ctx context.Context) error {
	if c.http != nil {
		return nil
	}
	authenticated, err := transport.NewWithContext(ctx, c.Repository.Registry, c.Auth, c.base, []string{c.Repository.Scope(transport.PullScope)})
	if err != nil {
		return c.explain(err)
	}
	c.http = &http.Client{Transport: authenticated}
	return nil
}

// Get asks for a path of the repository, such as /manifests/latest.
func (c *Client) Get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("%s://%s/v2/%s%s", c.scheme(), c.Repository.RegistryStr(), c.Repository.RepositoryStr(), path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[key] = values
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(err)
	}
	return response, nil
}

// scheme is changed to http by the library when an insecure registry does not speak TLS.
func (c *Client) scheme() string { return "https" }

// secretish hides what may be a credential in text that comes from a registry or a library.
var secretish = regexp.MustCompile(`(?i)(token|authorization|password|secret|signature|sig|credential)[^\s&"',;]*[=:]\s*[^\s&"',;]+`)

// Clean makes text of a registry fit for one line of a message.
func Clean(text string) string {
	text = secretish.ReplaceAllString(text, "$1=...")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return strings.TrimSpace(text)
}

// explain turns errors of the library into ours.
func (c *Client) explain(err error) error {
	var known *job.Error
	if errors.As(err, &known) {
		return known
	}
	host := c.Endpoint.Host
	var answered *transport.Error
	if errors.As(err, &answered) {
		return c.status(answered.StatusCode, answered.Error())
	}
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var invalid x509.CertificateInvalidError
	if why := firstOf(err, &unknown, &wrongHost, &invalid); why != "" {
		return job.Errorf(job.Unavailable, "registry.certificate", "the certificate of the registry %s is not trusted: %s", host, Clean(why)).
			WithHint(fmt.Sprintf("name its authority in config.toml: [registries.%q] ca = \"FILE\"", host))
	}
	if strings.Contains(err.Error(), "invalid realm") {
		return job.Errorf(job.Unavailable, "registry.realm", "the registry %s sends clients to a token service that is refused: %s", host, Clean(err.Error())).
			WithHint("a token service is reached by its name, with TLS; ask who runs the registry")
	}
	if errors.Is(err, context.Canceled) {
		return job.Errorf(job.Unavailable, "registry.canceled", "the transfer from %s was canceled", host)
	}
	return job.Errorf(job.Unavailable, "registry.unreachable", "the registry %s could not be reached: %s", host, Clean(err.Error())).
		WithHint("check the name of the registry and the network; `agentpod image pull` continues where a download stopped")
}

// firstOf is the text of the first of these errors that err contains.
func firstOf(err error, targets ...any) string {
	for _, target := range targets {
		if errors.As(err, target) {
			return reflect.ValueOf(target).Elem().Interface().(error).Error()
		}
	}
	return ""
}

// status turns an answer of the registry into an error.
func (c *Client) status(code int, said string) error {
	host, repository := c.Endpoint.Host, c.Repository.RepositoryStr()
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		what := "without a credential"
		if c.Endpoint.Auth != nil {
			what = "with the stored credential"
		}
		return job.Errorf(job.PermissionDenied, "registry.denied", "the registry %s refuses access to %s %s", host, repository, what).
			WithHint(fmt.Sprintf("check the name; for a private image run `docker login %s` as the user who runs the server, or store the credential in that user's ~/.docker/config.json", host))
	case http.StatusNotFound:
		return job.Errorf(job.NotFound, "image.unknown", "the registry %s does not have %s", host, repository).
			WithHint("check the name and the tag; a private image needs `docker login`")
	case http.StatusTooManyRequests:
		return job.Errorf(job.ResourceExhausted, "registry.rate_limit", "the registry %s refuses further requests for now", host).
			WithHint(fmt.Sprintf("try again later; `docker login %s` often raises the limit", host))
	}
	return job.Errorf(job.Unavailable, "registry.answer", "the registry %s answered with status %d: %s", host, code, Clean(said)).
		WithHint("try again later")
}
