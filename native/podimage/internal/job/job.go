// Package job is how the server and podimage speak: a job on stdin, JSON lines on stdout.
package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxJob bounds a job: the manifest and the configuration of an image that is pushed are part of it.
const maxJob = 16 << 20

// A Job is what the server asks for. Which fields it has depends on Op.
type Job struct {
	Op string `json:"op"`
	// Repository is the path in the registry: library/debian.
	Repository string `json:"repository,omitempty"`
	// Reference is a tag or a digest.
	Reference string     `json:"reference,omitempty"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Platform  Platform   `json:"platform"`
	Layer     Layer      `json:"layer"`
	Limits    Limits     `json:"limits"`
	Convert   Convert    `json:"convert"`
	Push      Push       `json:"push"`
	// Dockerfile, Context and Feature are read by their own package.
	Dockerfile json.RawMessage `json:"dockerfile,omitempty"`
	Context    json.RawMessage `json:"context,omitempty"`
	Feature    json.RawMessage `json:"feature,omitempty"`
}

// An Endpoint is a registry, or a mirror of it. They are tried in order.
type Endpoint struct {
	Host string `json:"host"`
	// Insecure allows plain HTTP.
	Insecure bool `json:"insecure,omitempty"`
	// CA is a PEM bundle of authorities to trust besides the machine's.
	CA   string `json:"ca,omitempty"`
	Auth *Auth  `json:"auth,omitempty"`
}

// Auth is a credential of the user who runs the server.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identityToken,omitempty"`
}

type Platform struct {
	OS           string `json:"os,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Variant      string `json:"variant,omitempty"`
}

func (p Platform) String() string {
	text := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	return text
}

// A Layer is one that `layer` fetches: its blob goes to descriptor 3, its unpacked tar file to descriptor 4.
type Layer struct {
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	MediaType string `json:"mediaType"`
	DiffID    string `json:"diffId"`
}

type Limits struct {
	Layers        int   `json:"layers"`
	ImageBytes    int64 `json:"imageBytes"`
	UnpackedBytes int64 `json:"unpackedBytes"`
}

// Convert describes how `convert` turns podhost's archive on descriptor 3 into a layer on descriptor 4.
type Convert struct {
	// Prefix is removed from every name; entries outside it are refused.
	Prefix string `json:"prefix,omitempty"`
	// NewestTime replaces later times, in Unix seconds.
	NewestTime int64 `json:"newestTime"`
	// Dropped are files that belong to one sandbox and not to its image.
	Dropped []string `json:"dropped,omitempty"`
	// Points are directories that every sandbox has. They are left out if nothing is in them.
	Points []string `json:"points,omitempty"`
	// Plain: the layer is not compressed.
	Plain bool `json:"plain,omitempty"`
}

// Push has what `push` writes; blob i is open on descriptor 3+i, in the order of the manifest's layers.
type Push struct {
	Manifest []byte `json:"manifest,omitempty"`
	Config   []byte `json:"config,omitempty"`
}

// Read reads the job. Unknown fields are errors: the server and podimage are of one version.
func Read(source io.Reader) (Job, error) {
	data, err := io.ReadAll(io.LimitReader(source, maxJob+1))
	if err != nil || len(data) > maxJob {
		return Job{}, Errorf(InvalidArgument, "job.size", "the job is not readable or larger than %d bytes", maxJob)
	}
	var asked Job
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return Job{}, Errorf(InvalidArgument, "job.malformed", "the job is malformed: %v", err)
	}
	return asked, nil
}

// Decode reads a part of a job, as strictly as the whole.
func Decode[T any](data json.RawMessage) (T, error) {
	var part T
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&part); err != nil {
		return part, Errorf(InvalidArgument, "job.malformed", "the job is malformed: %v", err)
	}
	return part, nil
}

// Codes of errors, as in src/core/error.ts.
const (
	InvalidArgument   = "invalid_argument"
	NotFound          = "not_found"
	PermissionDenied  = "permission_denied"
	Unsupported       = "unsupported"
	ResourceExhausted = "resource_exhausted"
	Unavailable       = "unavailable"
	DataLoss          = "data_loss"
	Internal          = "internal"
)

// An Error is what the server shows to a person.
type Error struct {
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func (e *Error) WithHint(hint string) *Error {
	e.Hint = hint
	return e
}

func Errorf(code, reason, format string, args ...any) *Error {
	return &Error{Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

var out sync.Mutex

func say(line any) {
	out.Lock()
	defer out.Unlock()
	data, err := json.Marshal(line)
	if err == nil {
		_, _ = os.Stdout.Write(append(data, '\n'))
	}
}

// Progress tells the server how far the job is.
func Progress(format string, args ...any) {
	say(map[string]string{"progress": fmt.Sprintf(format, args...)})
}

// Received tells the server how many bytes of a blob are there.
func Received(bytes int64) { say(map[string]int64{"bytes": bytes}) }

func Succeed(result any) { say(map[string]any{"result": result}) }

func Fail(err error) {
	var known *Error
	if !errors.As(err, &known) {
		known = Errorf(Internal, "podimage.failed", "%v", err)
	}
	say(map[string]any{"error": known})
}
