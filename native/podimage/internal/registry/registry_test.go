package registry

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentpod/podimage/internal/job"
)

func client(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(job.Endpoint{Host: "registry.example.com"}, "team/image")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func entry(digit, os, architecture, variant string) descriptor {
	return descriptor{Digest: "sha256:" + strings.Repeat(digit, 64), Platform: &platform{OS: os, Architecture: architecture, Variant: variant}}
}

func TestTheIndexEntryOfThisMachineIsChosen(t *testing.T) {
	amd, arm := job.Platform{OS: "linux", Architecture: "amd64"}, job.Platform{OS: "linux", Architecture: "arm64"}
	none := descriptor{Digest: "sha256:" + strings.Repeat("9", 64)}
	for name, c := range map[string]struct {
		entries []descriptor
		wanted  job.Platform
		digit   string
	}{
		"own":                {[]descriptor{entry("1", "linux", "arm64", "v8"), entry("2", "linux", "amd64", "")}, amd, "2"},
		"arm64 with variant": {[]descriptor{entry("1", "linux", "arm64", "v8")}, arm, "1"},
		"no higher level":    {[]descriptor{entry("1", "linux", "amd64", "v3"), entry("2", "linux", "amd64", "")}, amd, "2"},
		"only another level": {[]descriptor{entry("1", "linux", "amd64", "v4")}, amd, ""},
		"another system":     {[]descriptor{entry("1", "windows", "amd64", "")}, amd, ""},
		"attestation":        {[]descriptor{entry("1", "unknown", "unknown", ""), entry("2", "linux", "amd64", "")}, amd, "2"},
		"one without any":    {[]descriptor{none}, amd, "9"},
		"empty":              {[]descriptor{}, amd, ""},
	} {
		got, err := client(t).choose(c.entries, c.wanted)
		if c.digit == "" {
			var known *job.Error
			if !errors.As(err, &known) || known.Reason != "image.platform" {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil || got.Digest[7:8] != c.digit {
			t.Errorf("%s: %s %v", name, got.Digest, err)
		}
	}
}

func TestADocumentHasOneMeaning(t *testing.T) {
	for text, isGood := range map[string]bool{
		`{"schemaVersion":2,"config":{},"layers":[]}`:                                   true,
		`{"schemaVersion":2,"manifests":[]}`:                                            true,
		`{"schemaVersion":2,"config":{},"layers":[],"manifests":[]}`:                    false,
		`{"schemaVersion":2}`:                                                           false,
		`{"schemaVersion":1,"fsLayers":[]}`:                                             false,
		`{"schemaVersion":2,"mediaType":"` + ociIndex + `","config":{},"layers":[]}`:    false,
		`{"schemaVersion":2,"mediaType":"` + ociManifest + `","config":{},"layers":[]}`: true,
		`[]`: false,
		`{"schemaVersion":2,"mediaType":"` + dockerManifest + `","config":{},"layers":0}`: false,
	} {
		if _, err := client(t).parse([]byte(text), ""); (err == nil) != isGood {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := client(t).parse([]byte(`{"mediaType":"`+ociManifest+`","config":{},"layers":[]}`), dockerManifest); err == nil {
		t.Error("the header and the document disagree")
	}
}

func TestTextOfRegistriesLosesCredentialsAndControls(t *testing.T) {
	got := Clean("denied: token=abc.def Authorization: Basic\x1b[31m xyz\nnext " + strings.Repeat("x", 500))
	if strings.Contains(got, "abc.def") || strings.ContainsAny(got, "\x1b\n") || len(got) > 310 {
		t.Errorf("%q", got)
	}
}

func TestRetryAfterIsReadAsSecondsOrDate(t *testing.T) {
	for text, want := range map[string]time.Duration{"7": 7 * time.Second, "0": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		got, known := retryAfter(&http.Response{Header: http.Header{"Retry-After": {text}}})
		if !known || got != want {
			t.Errorf("%q: %v %v", text, got, known)
		}
	}
	for _, text := range []string{"", "-1", "soon", "99999999999"} {
		if got, known := retryAfter(&http.Response{Header: http.Header{"Retry-After": {text}}}); known {
			t.Errorf("%q: %v", text, got)
		}
	}
}
