package hostproto

import (
	"encoding/json"
	"regexp"
	"unicode/utf8"
)

const (
	Version = 1
	// MaxLine bounds a request or an answer, newline included.
	MaxLine = 1 << 20
	// MaxLayers keeps a stack's overlay options within one page; snapshots over the layers count too.
	MaxLayers = 128
	// MaxOver bounds the snapshots of a root.
	MaxOver = 64
)

// A Request names its operation and carries that operation's arguments as one of the types below. ID is nil when the line
// did not get as far as to have one.
type Request struct {
	ID   *int64
	Op   string
	Args any
}

type (
	NoArgs struct{}

	SandboxID struct{ ID string }

	// List asks for the sandboxes, or snapshots, whose id sorts behind After.
	List struct{ After string }

	// CreateSandbox is also what a start takes, without a Snapshot.
	CreateSandbox struct {
		ID         string
		Owner      string
		Hostname   string
		Root       Root
		Resources  Resources
		DeadlineMs int64
		WhenOver   string
		Snapshot   string
	}

	// SetDeadline is what sandbox.deadline and sandbox.resume take.
	SetDeadline struct {
		ID         string
		DeadlineMs int64
	}

	CreateSnapshot struct {
		ID      string
		Owner   string
		Sandbox string
	}

	SnapshotID struct{ ID string }

	ExportSnapshot struct {
		ID   string
		File string
	}

	ImportSnapshot struct {
		ID     string
		Owner  string
		Root   Root
		File   string
		Digest string
	}

	// LayerFile is what layer.import and layer.export take.
	LayerFile struct {
		Digest string
		File   string
	}

	LayerDigest struct{ Digest string }
)

// What podhost does with a sandbox whose time is up.
const (
	OverDestroy = "destroy"
	OverPause   = "pause"
	OverStop    = "stop"
)

// Root says what a sandbox stands on: this machine's tools, or layers, lowest first; and over that snapshots, lowest first.
type Root struct {
	Kind   string   `json:"kind"`
	Layers []string `json:"layers,omitempty"`
	Over   []string `json:"over,omitempty"`
}

// Resources are the limits asked for; zero leaves one out.
type Resources struct {
	MemoryBytes int64   `json:"memoryBytes"`
	SwapBytes   int64   `json:"swapBytes"`
	CPUs        float64 `json:"cpus"`
	Pids        int64   `json:"pids"`
	Files       int64   `json:"files"`
	TmpBytes    int64   `json:"tmpBytes"`
	ShmBytes    int64   `json:"shmBytes"`
	DiskBytes   int64   `json:"diskBytes"`
}

// Uses reports whether a layer is part of the root.
func (r Root) Uses(digest string) bool { return contains(r.Layers, digest) }

// UsesSnapshot reports whether a snapshot is part of the root.
func (r Root) UsesSnapshot(id string) bool { return contains(r.Over, id) }

// Equal reports whether two roots are the same one.
func (r Root) Equal(other Root) bool {
	return r.Kind == other.Kind && isSame(r.Layers, other.Layers) && isSame(r.Over, other.Over)
}

// Extends reports whether the root is another one, with nothing or more snapshots over it.
func (r Root) Extends(other Root) bool {
	return len(r.Over) >= len(other.Over) && other.Equal(Root{Kind: r.Kind, Layers: r.Layers, Over: r.Over[:len(other.Over)]})
}

func isSame(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, entry := range a {
		if entry != b[i] {
			return false
		}
	}
	return true
}

var (
	idGrammar       = regexp.MustCompile(`\A[a-z0-9]{4,20}\z`)
	digestGrammar   = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	ownerGrammar    = regexp.MustCompile(`\A[!-~]{1,128}\z`)
	hostnameGrammar = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	fileGrammar     = regexp.MustCompile(`\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\z`)
	kindGrammar     = regexp.MustCompile(`\A(host|layers)\z`)
	overGrammar     = regexp.MustCompile(`\A(destroy|pause|stop)\z`)
	opGrammar       = regexp.MustCompile(`\A[a-z.]{1,32}\z`)
)

// IsID reports whether a name found on disk can be a sandbox's or a snapshot's.
func IsID(name string) bool { return idGrammar.MatchString(name) }

// IsDigest reports whether a name found on disk can be a layer's.
func IsDigest(name string) bool { return digestGrammar.MatchString(name) }

// Parse reads one line. It returns the request's id even beside an error, when there is one to answer to.
func Parse(line []byte) (Request, *Error) {
	if !utf8.Valid(line) || tooDeep(line) || !json.Valid(line) {
		return Request{}, Errorf(InvalidArgument, "request.invalid", "the line is not JSON of at most %d levels", maxDepth)
	}
	envelope := parseObject("request", line, []string{"v", "id", "op", "args"}, nil)
	var request Request
	if id := envelope.integer("id", maxSafeInteger); envelope.err == nil {
		request.ID = &id
	}
	version := envelope.integer("v", maxSafeInteger)
	request.Op = envelope.text("op", opGrammar)
	if envelope.err != nil {
		return request, envelope.err
	}
	if version != Version {
		return request, Errorf(InvalidArgument, "request.version", "protocol version %d is not spoken here, %d is", version, Version)
	}
	var err *Error
	request.Args, err = parseArgs(request.Op, envelope.fields["args"])
	return request, err
}
