package dockerfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"agentpod/podimage/internal/job"

	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// convertTime bounds the work on one file; usual ones take milliseconds.
	convertTime = 30 * time.Second
	maxContent  = 1 << 20
	maxVertices = 2000
	maxWarnings = 100
	maxText     = 500
)

// Convert answers a Request.
//
// SECURITY: IM-07. A Dockerfile is hostile. It is bounded in size and time, podimage has no rights and a
// limit of memory, and nothing is fetched: the server resolves images, by its own rules.
func Convert(ctx context.Context, asked Request) (any, error) {
	if len(asked.Content) > maxContent {
		return nil, job.Errorf(job.InvalidArgument, "dockerfile.size", "%s is larger than %d bytes", asked.Name, maxContent)
	}
	platform, err := platforms.Parse(asked.Platform)
	if err != nil {
		return nil, job.Errorf(job.InvalidArgument, "dockerfile.platform", "%q is no platform", asked.Platform)
	}
	ctx, cancel := context.WithTimeout(ctx, convertTime)
	defer cancel()
	resolver := newResolver(asked.Images)
	var warnings warnings
	caps := pb.Caps.CapSet(pb.Caps.All())
	source := llb.NewSourceMap(nil, asked.Name, "Dockerfile", asked.Content)
	result, err := dockerfile2llb.Dockerfile2LLB(ctx, asked.Content, dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildArgs:      asked.Args,
			Target:         asked.Target,
			BuildPlatforms: []ocispecs.Platform{platform},
			LinterConfig:   &linter.Config{},
		},
		SourceMap:      source,
		TargetPlatform: &platform,
		MetaResolver:   resolver,
		LLBCaps:        &caps,
		Warn:           warnings.add,
	})
	if needs := resolver.needs(); len(needs) > 0 {
		return Answer{Needs: needs}, nil
	}
	if err != nil {
		return nil, failure(asked, err)
	}
	definition, err := result.State.Marshal(ctx, llb.Platform(platform), llb.WithCaps(caps))
	if err != nil {
		return nil, failure(asked, err)
	}
	graph, err := build(asked.Name, definition.ToPB())
	if err != nil {
		return nil, err
	}
	if graph.Config, err = json.Marshal(result.Image); err != nil {
		return nil, err
	}
	graph.Warnings = warnings.sorted()
	return Answer{Graph: graph}, nil
}

// resolver gives the configurations that the server sent, and notes those that it has to send.
type resolver struct {
	mu      sync.Mutex
	known   map[string]KnownImage
	missing map[string]bool
}

var errMissing = errors.New("the configuration of an image is not known yet")

func newResolver(images []KnownImage) *resolver {
	r := &resolver{known: map[string]KnownImage{}, missing: map[string]bool{}}
	for _, one := range images {
		r.known[normal(one.Ref)] = one
	}
	return r
}

// normal is a reference as BuildKit writes it in the graph.
func normal(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return reference.TagNameOnly(named).String()
}

func (r *resolver) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.known[normal(ref)]; ok {
		// Without a digest the reference stays as it is in the file; the server pins it.
		return ref, "", one.Config, nil
	}
	r.missing[normal(ref)] = true
	return "", "", nil, errMissing
}

func (r *resolver) needs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var refs []string
	for ref := range r.missing {
		refs = append(refs, ref)
	}
	sort.Strings(refs)
	return refs
}

type warnings struct {
	mu  sync.Mutex
	all []Warning
}

func (w *warnings) add(rule, _, url, text string, location []parser.Range) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := Warning{Rule: rule, Text: shorten(text), URL: url}
	if len(location) > 0 {
		found.Line = location[0].Start.Line
	}
	for _, one := range w.all {
		if one == found {
			return
		}
	}
	if len(w.all) < maxWarnings {
		w.all = append(w.all, found)
	}
}

func (w *warnings) sorted() []Warning {
	sort.SliceStable(w.all, func(i, j int) bool { return w.all[i].Line < w.all[j].Line })
	return append([]Warning{}, w.all...)
}

// failure names the line.
func failure(asked Request, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return job.Errorf(job.ResourceExhausted, "dockerfile.time", "%s takes longer than %s to read", asked.Name, convertTime)
	}
	place := asked.Name
	var located *parser.LocationError
	if errors.As(err, &located) && len(located.Locations) > 0 && len(located.Locations[0]) > 0 {
		place = fmt.Sprintf("%s:%d", asked.Name, located.Locations[0][0].Start.Line)
	}
	text := shorten(lineWords.ReplaceAllString(err.Error(), ""))
	found := job.Errorf(job.InvalidArgument, "dockerfile.invalid", "%s: %s", place, text)
	if strings.Contains(text, "target stage") && strings.Contains(text, "could not be found") {
		return job.Errorf(job.InvalidArgument, "dockerfile.target", "%s has no stage %q", asked.Name, asked.Target).
			WithHint("--target takes the name that follows AS in a FROM line, or the number of a stage, from 0")
	}
	return found
}

// lineWords are how BuildKit itself names a line.
var lineWords = regexp.MustCompile(`^(dockerfile parse error on )?line \d+: `)

func shorten(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}
