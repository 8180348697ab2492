package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"agentpod/podimage/internal/job"
)

// guard is the last check before a request leaves: plain HTTP only where the user's configuration names it,
// and credentials only for the registry and the token service that the registry itself names.
//
// SECURITY: IM-02. The library falls back to HTTP for local names on its own, and a registry may redirect to
// any host.
type guard struct {
	inner    http.RoundTripper
	host     string
	insecure bool

	mu     sync.Mutex
	realms map[string]bool
	// failed is why TLS with the registry did not work.
	failed error
}

var realm = regexp.MustCompile(`(?i)realm="([^"]{1,1000})"`)

func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	isRegistry := request.URL.Host == g.host
	if request.URL.Scheme != "https" && !(g.insecure && request.URL.Scheme == "http") {
		if err := g.tlsError(); isRegistry && err != nil {
			// The library tries HTTP after TLS, and would report only the second failure.
			return nil, err
		}
		if isRegistry {
			return nil, job.Errorf(job.Unavailable, "registry.insecure", "the registry %s does not speak TLS", g.host).
				WithHint(fmt.Sprintf("allow plain HTTP in config.toml: [registries.%q] insecure = true", g.host))
		}
		return nil, job.Errorf(job.Unavailable, "registry.redirect", "the registry %s leads to plain HTTP at %s, which is refused", g.host, Clean(request.URL.Host)).
			WithHint("the registry is configured badly; ask who runs it")
	}
	if request.Header.Get("Authorization") != "" && !isRegistry && !g.isRealm(request.URL) {
		request = request.Clone(request.Context())
		request.Header.Del("Authorization")
	}
	response, err := g.inner.RoundTrip(request)
	var plain tls.RecordHeaderError
	if err != nil && isRegistry && !errors.As(err, &plain) {
		g.mu.Lock()
		g.failed = err
		g.mu.Unlock()
	}
	if err == nil && isRegistry && response.StatusCode == http.StatusUnauthorized {
		g.learn(response.Header.Values("WWW-Authenticate"))
	}
	return response, err
}

func (g *guard) tlsError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

func (g *guard) isRealm(address *url.URL) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.realms[address.Host+address.Path]
}

func (g *guard) learn(challenges []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, challenge := range challenges {
		for _, found := range realm.FindAllStringSubmatch(challenge, 4) {
			if address, err := url.Parse(found[1]); err == nil && len(g.realms) < 16 {
				g.realms[address.Host+address.Path] = true
			}
		}
	}
}

const (
	mostTries    = 7
	longestPause = 60 * time.Second
	// mostPatience bounds the pauses of one request together.
	mostPatience = 5 * time.Minute
)

// patient waits and asks again when a registry is busy, as long as it says, within limits.
type patient struct{ inner http.RoundTripper }

func (p *patient) RoundTrip(request *http.Request) (*http.Response, error) {
	pause, waited := time.Second, time.Duration(0)
	for try := 1; ; try++ {
		response, err := p.inner.RoundTrip(request)
		if err != nil || try >= mostTries || !isBusy(response.StatusCode) || !canRepeat(request) {
			return response, err
		}
		wait := pause
		if said, known := retryAfter(response); known {
			wait = said
		}
		if wait > longestPause || waited+wait > mostPatience {
			return response, nil
		}
		response.Body.Close()
		if wait >= time.Second {
			job.Progress("%s is busy; asking again in %s", Clean(request.URL.Host), wait.Round(time.Second))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-request.Context().Done():
			timer.Stop()
			return nil, request.Context().Err()
		}
		waited += wait
		pause *= 2
		if request.GetBody != nil {
			body, err := request.GetBody()
			if err != nil {
				return nil, err
			}
			request = request.Clone(request.Context())
			request.Body = body
		}
	}
}

func isBusy(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == http.StatusBadGateway ||
		status == http.StatusGatewayTimeout
}

func canRepeat(request *http.Request) bool {
	return request.Body == nil || request.Body == http.NoBody || request.GetBody != nil
}

// retryAfter reads seconds or a date.
func retryAfter(response *http.Response) (time.Duration, bool) {
	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 && seconds < 1<<20 {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		if wait := time.Until(at); wait > 0 {
			return wait, true
		}
		return 0, true
	}
	return 0, false
}
