package hostproto

import (
	"encoding/json"
	"regexp"
	"unicode/utf8"
)

const (
	Version = 1
	// MaxLine bounds a request or an answer, including the newline.
	MaxLine = 1 << 20
	// MaxLayers keeps the overlay options within one page. The snapshots over the layers count too.
	MaxLayers = 128
	// MaxOver bounds the snapshots of a root.
	MaxOver = 64
	// PageLength is the most entries in the answer to a list, which keeps it within MaxLine.
	PageLength = 500
	// MaxMounts bounds the mounts of a sandbox.
	MaxMounts = 32
)

// A Request names its operation and has that operation's arguments as one of the types below. ID is nil if
// the line has no valid id.
type Request struct {
	ID   *int64
	Op   string
	Args any
}

type (
	NoArgs struct{}

	// Probe asks what sandboxes on a runtime need here.
	Probe struct{ Runtime string }

	SandboxID struct{ ID string }

	// SandboxPath names a directory inside a sandbox.
	SandboxPath struct{ ID, Path string }

	// List asks for the sandboxes, or snapshots, whose ids sort after After.
	List struct{ After string }

	// CreateSandbox has the arguments of sandbox.create. sandbox.start and sandbox.restore have the same,
	// without a Snapshot.
	CreateSandbox struct {
		ID         string
		Owner      string
		Hostname   string
		Root       Root
		Resources  Resources
		DeadlineMs int64
		WhenOver   string
		Snapshot   string
		Mounts     []Mount
		// Runtime is "gvisor" or "qemu", or empty for the host's kernel.
		Runtime string
		// Memory: continue the processes of the snapshot.
		Memory bool
		// Docker: root inside may run a container engine.
		Docker bool
		// RootDirs are /tmp and /run, if they are part of the root instead of temporary file systems.
		RootDirs []string
	}

	CreateVolume struct {
		ID        string
		Owner     string
		SizeBytes int64
	}

	VolumeID struct{ ID string }

	// SetDeadline has the arguments of sandbox.deadline and sandbox.resume.
	SetDeadline struct {
		ID         string
		DeadlineMs int64
	}

	CreateSnapshot struct {
		ID      string
		Owner   string
		Sandbox string
		// Memory: keep the memory of its processes too.
		Memory bool
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
		// Runtime is that of the sandboxes that the snapshot is for.
		Runtime string
	}

	// LayerFile has the arguments of layer.import and layer.export.
	LayerFile struct {
		Digest string
		File   string
	}

	LayerDigest struct{ Digest string }
)

// What podhost does with a sandbox whose deadline has passed.
const (
	OverDestroy = "destroy"
	OverPause   = "pause"
	OverStop    = "stop"
)

// Root says what a sandbox's root is made of: this machine's tools, or layers, lowest first; and over that
// snapshots, lowest first.
type Root struct {
	Kind   string   `json:"kind"`
	Layers []string `json:"layers,omitempty"`
	Over   []string `json:"over,omitempty"`
}

// Resources are the requested limits; zero means no limit.
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

// Equal reports whether two roots are the same.
func (r Root) Equal(other Root) bool {
	return r.Kind == other.Kind && isSame(r.Layers, other.Layers) && isSame(r.Over, other.Over)
}

// Extends reports whether the root is the other one, with or without more snapshots over it.
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
	pathGrammar     = regexp.MustCompile(`\A(/[^/\x00-\x1f\x7f]+)+\z`)
	digestGrammar   = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	ownerGrammar    = regexp.MustCompile(`\A[!-~]{1,128}\z`)
	hostnameGrammar = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	fileGrammar     = regexp.MustCompile(`\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\z`)
	kindGrammar     = regexp.MustCompile(`\A(host|layers)\z`)
	overGrammar     = regexp.MustCompile(`\A(destroy|pause|stop)\z`)
	runtimeGrammar  = regexp.MustCompile(`\A(gvisor|qemu)\z`)
	opGrammar       = regexp.MustCompile(`\A[a-z.]{1,32}\z`)
)

// IsID reports whether a name on disk can be the id of a sandbox or a snapshot.
func IsID(name string) bool { return idGrammar.MatchString(name) }

// IsDigest reports whether a name on disk can be the digest of a layer.
func IsDigest(name string) bool { return digestGrammar.MatchString(name) }

// Parse reads one line. Beside an error it still returns the request's id, if it has one.
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
		return request, Errorf(InvalidArgument, "request.version", "protocol version %d is not supported; use version %d", version, Version)
	}
	var err *Error
	request.Args, err = parseArgs(request.Op, envelope.fields["args"])
	return request, err
}
