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
	// MaxLayers keeps a stack's overlay options within one page.
	MaxLayers = 128
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

	// ListSandboxes asks for those whose id sorts behind After.
	ListSandboxes struct{ After string }

	CreateSandbox struct {
		ID         string
		Owner      string
		Hostname   string
		Root       Root
		Resources  Resources
		DeadlineMs int64
	}

	SetDeadline struct {
		ID         string
		DeadlineMs int64
	}

	ImportLayer struct {
		Digest string
		File   string
	}

	LayerDigest struct{ Digest string }
)

// Root says what a sandbox stands on: this machine's tools, or layers, lowest first.
type Root struct {
	Kind   string   `json:"kind"`
	Layers []string `json:"layers,omitempty"`
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
}

var (
	idGrammar       = regexp.MustCompile(`\A[a-z0-9]{4,20}\z`)
	digestGrammar   = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	ownerGrammar    = regexp.MustCompile(`\A[!-~]{1,128}\z`)
	hostnameGrammar = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	fileGrammar     = regexp.MustCompile(`\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\z`)
	kindGrammar     = regexp.MustCompile(`\A(host|layers)\z`)
	opGrammar       = regexp.MustCompile(`\A[a-z.]{1,32}\z`)
)

// IsID reports whether a name found on disk can be a sandbox's.
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

func parseArgs(op string, raw []byte) (any, *Error) {
	switch op {
	case "hello", "probe", "layer.list", "clear", "shutdown":
		o := parseObject("args", raw, nil, nil)
		return NoArgs{}, o.err
	case "sandbox.inspect", "sandbox.stats", "sandbox.destroy":
		o := parseObject("args", raw, []string{"id"}, nil)
		return SandboxID{ID: o.text("id", idGrammar)}, o.err
	case "sandbox.list":
		o := parseObject("args", raw, nil, []string{"after"})
		return ListSandboxes{After: o.text("after", idGrammar)}, o.err
	case "sandbox.deadline":
		o := parseObject("args", raw, []string{"id", "deadlineMs"}, nil)
		return SetDeadline{ID: o.text("id", idGrammar), DeadlineMs: o.integer("deadlineMs", maxSafeInteger)}, o.err
	case "sandbox.create":
		return parseCreate(raw)
	case "layer.import":
		o := parseObject("args", raw, []string{"digest", "file"}, nil)
		return ImportLayer{Digest: o.text("digest", digestGrammar), File: o.text("file", fileGrammar)}, o.err
	case "layer.remove":
		o := parseObject("args", raw, []string{"digest"}, nil)
		return LayerDigest{Digest: o.text("digest", digestGrammar)}, o.err
	}
	return nil, Errorf(InvalidArgument, "request.op", "there is no operation %q", op)
}

func parseCreate(raw []byte) (any, *Error) {
	o := parseObject("args", raw, []string{"id", "owner", "hostname", "root", "resources", "deadlineMs"}, nil)
	args := CreateSandbox{
		ID:         o.text("id", idGrammar),
		Owner:      o.text("owner", ownerGrammar),
		Hostname:   o.text("hostname", hostnameGrammar),
		DeadlineMs: o.integer("deadlineMs", maxSafeInteger),
	}
	if o.err != nil {
		return nil, o.err
	}
	root := parseObject("args.root", o.fields["root"], []string{"kind"}, []string{"layers"})
	args.Root.Kind = root.text("kind", kindGrammar)
	args.Root.Layers = root.texts("layers", digestGrammar, MaxLayers)
	if _, there := root.fields["layers"]; root.err == nil && there != (args.Root.Kind == "layers") {
		root.fail("layers", "belongs to kind \"layers\", and only to it")
	}
	if root.err != nil {
		return nil, root.err
	}
	const maxBytes = 1 << 50
	r := parseObject("args.resources", o.fields["resources"], nil,
		[]string{"memoryBytes", "swapBytes", "cpus", "pids", "files", "tmpBytes", "shmBytes"})
	args.Resources = Resources{
		MemoryBytes: r.integer("memoryBytes", maxBytes),
		SwapBytes:   r.integer("swapBytes", maxBytes),
		CPUs:        r.number("cpus", 4096),
		Pids:        r.integer("pids", 1<<22),
		Files:       r.integer("files", 1<<30),
		TmpBytes:    r.integer("tmpBytes", maxBytes),
		ShmBytes:    r.integer("shmBytes", maxBytes),
	}
	return args, r.err
}
