package dockerfile

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"agentpod/podimage/internal/actions"
	"agentpod/podimage/internal/job"

	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/buildkit/util/gitutil"
	"github.com/opencontainers/go-digest"
)

// builder turns BuildKit's operations into vertices.
type builder struct {
	ops       map[string]*pb.Op
	metadata  map[string]*pb.OpMetadata
	locations map[string]*pb.Locations
	numbers   map[string]int
	name      string
	graph     *Graph
}

// nothing is the number of the empty file system.
const nothing = -1

func build(name string, definition *pb.Definition) (*Graph, error) {
	b := &builder{name: name, ops: map[string]*pb.Op{}, metadata: definition.Metadata, numbers: map[string]int{},
		graph: &Graph{Vertices: []Vertex{}, Result: nothing}}
	if definition.Source != nil {
		b.locations = definition.Source.Locations
	}
	if len(definition.Def) == 0 {
		return b.graph, nil
	}
	if len(definition.Def) > maxVertices {
		return nil, job.Errorf(job.InvalidArgument, "dockerfile.large", "the Dockerfile needs more than %d steps", maxVertices)
	}
	var last *pb.Op
	for _, data := range definition.Def {
		op := &pb.Op{}
		if err := op.UnmarshalVT(data); err != nil {
			return nil, err
		}
		b.ops[digest.FromBytes(data).String()] = op
		last = op
	}
	// The last operation only names the result.
	if len(last.Inputs) == 0 {
		return b.graph, nil
	}
	result, err := b.visit(last.Inputs[0].Digest)
	if err != nil {
		return nil, err
	}
	b.graph.Result = result
	return b.graph, nil
}

// visit adds a vertex and what it needs, and returns its number.
func (b *builder) visit(id string) (int, error) {
	if number, ok := b.numbers[id]; ok {
		return number, nil
	}
	op := b.ops[id]
	if op == nil {
		return 0, job.Errorf(job.Internal, "dockerfile.graph", "the graph names an operation that it does not have")
	}
	vertex := Vertex{}
	var err error
	switch one := op.Op.(type) {
	case *pb.Op_Source:
		err = source(&vertex, one.Source)
	case *pb.Op_Exec:
		vertex.Exec, err = b.exec(op, one.Exec)
	case *pb.Op_File:
		vertex.File, err = b.file(op, one.File, nil)
	case *pb.Op_Merge:
		vertex.File, err = b.merge(op, one.Merge)
		if merged := op.Inputs[len(op.Inputs)-1]; err == nil {
			b.describe(&vertex, merged.Digest)
		}
	default:
		err = job.Errorf(job.Unsupported, "dockerfile.operation", "the Dockerfile needs an operation that is not supported: %T", one)
	}
	b.describe(&vertex, id)
	if err != nil {
		return 0, b.located(err, vertex.Line)
	}
	number := len(b.graph.Vertices)
	b.graph.Vertices = append(b.graph.Vertices, vertex)
	b.numbers[id] = number
	b.locateFetches(op, vertex.Line)
	return number, nil
}

// locateFetches gives what ADD fetches the line of the instruction: BuildKit knows only that of the copy.
func (b *builder) locateFetches(op *pb.Op, line int) {
	for _, input := range op.Inputs {
		number, ok := b.numbers[input.Digest]
		if !ok {
			continue
		}
		if from := &b.graph.Vertices[number]; from.Line == 0 && (from.HTTP != nil || from.Git != nil) {
			from.Line = line
		}
	}
}

// located names the line of an error, once.
func (b *builder) located(err error, line int) error {
	var known *job.Error
	if errors.As(err, &known) && line > 0 && !strings.HasPrefix(known.Message, b.name+":") {
		known.Message = fmt.Sprintf("%s:%d: %s", b.name, line, known.Message)
	}
	return err
}

func (b *builder) describe(vertex *Vertex, id string) {
	if found := b.metadata[id]; found != nil {
		if name := found.Description["llb.customname"]; name != "" {
			vertex.Title = shorten(strings.Replace(name, "] LINK ", "] ", 1))
		}
		vertex.NoCache = vertex.NoCache || found.IgnoreCache
	}
	if found := b.locations[id]; found != nil && len(found.Locations) > 0 && len(found.Locations[0].Ranges) > 0 {
		if start := found.Locations[0].Ranges[0].Start; start != nil {
			vertex.Line = int(start.Line)
		}
	}
}

// input returns the number of the vertex that is input i of an operation.
func (b *builder) input(op *pb.Op, i int64) (int, error) {
	if i < 0 {
		return nothing, nil
	}
	if int(i) >= len(op.Inputs) {
		return 0, job.Errorf(job.Internal, "dockerfile.graph", "the graph names an input that it does not have")
	}
	if op.Inputs[i].Index != 0 {
		return 0, job.Errorf(job.Unsupported, "dockerfile.operation", "the Dockerfile uses a result that is not a root file system")
	}
	return b.visit(op.Inputs[i].Digest)
}

func source(vertex *Vertex, op *pb.SourceOp) error {
	scheme, rest, _ := strings.Cut(op.Identifier, "://")
	switch scheme {
	case "docker-image":
		vertex.Image = &Image{Ref: rest}
	case "local":
		vertex.Local = &Local{Name: rest}
	case "http", "https":
		mode, err := strconv.ParseInt(op.Attrs[pb.AttrHTTPPerm], 0, 32)
		if err != nil || mode == 0 {
			mode = 0o600
		}
		vertex.HTTP = &actions.HTTP{URL: op.Identifier, Name: op.Attrs[pb.AttrHTTPFilename], Checksum: op.Attrs[pb.AttrHTTPChecksum], Mode: int(mode)}
	case "git":
		return git(vertex, op, rest)
	default:
		return job.Errorf(job.Unsupported, "dockerfile.source", "files cannot come from %s://", scheme)
	}
	return nil
}

func git(vertex *Vertex, op *pb.SourceOp, rest string) error {
	text := op.Attrs[pb.AttrFullRemoteURL]
	if text == "" {
		text = "https://" + rest
	}
	found := &actions.Git{Checksum: op.Attrs[pb.AttrGitChecksum], KeepGitDir: op.Attrs[pb.AttrKeepGitDir] == "true",
		Submodules: op.Attrs[pb.AttrGitSkipSubmodules] != "true"}
	remote, err := gitutil.ParseURL(text)
	if err != nil {
		return job.Errorf(job.InvalidArgument, "dockerfile.git", "%q is no address of a git repository", shorten(text))
	}
	if remote.Scheme != "https" && remote.Scheme != "http" {
		return job.Errorf(job.Unsupported, "dockerfile.git", "repositories are cloned over HTTPS only, not over %s", remote.Scheme).
			WithHint("write the address of the repository with https://")
	}
	found.Remote = remote.Remote
	// The identifier has the commit and the directory; the full address has the scheme.
	if _, fragment, ok := strings.Cut(rest, "#"); ok {
		found.Ref, found.Subdir, _ = strings.Cut(fragment, ":")
	}
	vertex.Git = found
	return nil
}

func (b *builder) exec(op *pb.Op, exec *pb.ExecOp) (*Exec, error) {
	if exec.Security != pb.SecurityMode_SANDBOX {
		return nil, job.Errorf(job.Unsupported, "dockerfile.security", "RUN --security=insecure is not supported: every step runs in a sandbox")
	}
	if len(exec.CdiDevices) > 0 {
		return nil, job.Errorf(job.Unsupported, "dockerfile.device", "RUN --device is not supported")
	}
	meta := exec.Meta
	made := &Exec{Root: nothing, Args: meta.Args, Env: meta.Env, Cwd: meta.Cwd, User: meta.User}
	switch exec.Network {
	case pb.NetMode_NONE:
		made.Network = "none"
	case pb.NetMode_HOST:
		return nil, job.Errorf(job.Unsupported, "dockerfile.network", "RUN --network=host is not supported: a step has the network that the build allows").
			WithHint("leave the option out, and allow hosts with --allow")
	}
	for _, one := range exec.Secretenv {
		made.Secrets = append(made.Secrets, SecretEnv{ID: one.ID, Name: one.Name, Optional: one.Optional})
	}
	for _, mount := range exec.Mounts {
		from, err := b.input(op, mount.Input)
		if err != nil {
			return nil, err
		}
		if mount.Dest == "/" && mount.MountType == pb.MountType_BIND {
			made.Root = from
			continue
		}
		found := Mount{Path: path.Join("/", mount.Dest), From: from, Selector: mount.Selector, Readonly: mount.Readonly}
		switch mount.MountType {
		case pb.MountType_BIND:
			found.Kind = "bind"
		case pb.MountType_CACHE:
			found.Kind, found.ID, found.Sharing = "cache", mount.CacheOpt.ID, strings.ToLower(mount.CacheOpt.Sharing.String())
		case pb.MountType_TMPFS:
			found.Kind = "tmpfs"
			if mount.TmpfsOpt != nil {
				found.Size = mount.TmpfsOpt.Size
			}
		case pb.MountType_SECRET:
			o := mount.SecretOpt
			found.Kind, found.ID, found.UID, found.GID, found.Mode, found.Optional = "secret", o.ID, o.Uid, o.Gid, o.Mode, o.Optional
		case pb.MountType_SSH:
			if mount.SSHOpt.Optional {
				continue
			}
			return nil, job.Errorf(job.Unsupported, "dockerfile.ssh", "RUN --mount=type=ssh is not supported: keys of this machine do not enter a sandbox").
				WithHint("use https:// and --mount=type=secret for a token")
		}
		made.Mounts = append(made.Mounts, found)
	}
	return made, nil
}

// merge is how COPY --link is written: files are made on an empty file system and then laid over a root. Here
// they are made on the root itself, which gives the same files.
func (b *builder) merge(op *pb.Op, merge *pb.MergeOp) (*File, error) {
	unsupported := job.Errorf(job.Unsupported, "dockerfile.merge", "the Dockerfile merges file systems in a way that is not supported")
	if len(merge.Inputs) != 2 {
		return nil, unsupported
	}
	root, err := b.input(op, merge.Inputs[0].Input)
	if err != nil {
		return nil, err
	}
	upper := merge.Inputs[1].Input
	if upper < 0 || int(upper) >= len(op.Inputs) {
		return nil, unsupported
	}
	over := b.ops[op.Inputs[upper].Digest]
	if over == nil || over.GetFile() == nil {
		return nil, unsupported
	}
	return b.file(over, over.GetFile(), &root)
}

// file turns a chain of actions into a list. If root is set, it takes the place of the empty file system.
func (b *builder) file(op *pb.Op, file *pb.FileOp, root *int) (*File, error) {
	made := &File{Root: nothing}
	count := int64(len(op.Inputs))
	for i, action := range file.Actions {
		switch {
		case i == 0:
			var err error
			if made.Root, err = b.input(op, action.Input); err != nil {
				return nil, err
			}
			if root != nil && made.Root != nothing {
				return nil, job.Errorf(job.Unsupported, "dockerfile.merge", "the Dockerfile merges file systems in a way that is not supported")
			}
			if root != nil {
				made.Root = *root
			}
		case action.Input != count+int64(i)-1:
			return nil, job.Errorf(job.Unsupported, "dockerfile.operation", "the Dockerfile changes files in an order that is not supported")
		}
		one, err := b.action(op, action)
		if err != nil {
			return nil, err
		}
		made.Actions = append(made.Actions, one)
	}
	return made, nil
}

func (b *builder) action(op *pb.Op, action *pb.FileAction) (actions.Action, error) {
	switch one := action.Action.(type) {
	case *pb.FileAction_Copy:
		c := one.Copy
		from, err := b.input(op, action.SecondaryInput)
		if err != nil {
			return actions.Action{}, err
		}
		return actions.Action{Copy: &actions.Copy{From: from, Src: c.Src, Dest: c.Dest, Owner: owner(c.Owner), Mode: c.Mode, ModeText: c.ModeStr,
			FollowSymlink: c.FollowSymlink, DirContents: c.DirCopyContents, Unpack: c.AttemptUnpackDockerCompatibility,
			CreateDestPath: c.CreateDestPath, Wildcard: c.AllowWildcard, EmptyWildcard: c.AllowEmptyWildcard,
			Replace: c.AlwaysReplaceExistingDestPaths, Timestamp: c.Timestamp, Include: c.IncludePatterns,
			Exclude: c.ExcludePatterns, Required: c.RequiredPaths}}, nil
	case *pb.FileAction_Mkdir:
		m := one.Mkdir
		return actions.Action{Mkdir: &actions.Mkdir{Path: m.Path, Mode: m.Mode, Parents: m.MakeParents, Owner: owner(m.Owner), Timestamp: m.Timestamp}}, nil
	case *pb.FileAction_Mkfile:
		m := one.Mkfile
		return actions.Action{Mkfile: &actions.Mkfile{Path: m.Path, Mode: m.Mode, Data: m.Data, Owner: owner(m.Owner), Timestamp: m.Timestamp}}, nil
	case *pb.FileAction_Rm:
		return actions.Action{Rm: &actions.Rm{Path: one.Rm.Path, AllowNotFound: one.Rm.AllowNotFound, Wildcard: one.Rm.AllowWildcard}}, nil
	case *pb.FileAction_Symlink:
		s := one.Symlink
		return actions.Action{Symlink: &actions.Symlink{Target: s.Oldpath, Path: s.Newpath, Owner: owner(s.Owner), Timestamp: s.Timestamp}}, nil
	}
	return actions.Action{}, job.Errorf(job.Unsupported, "dockerfile.operation", "the Dockerfile needs an operation that is not supported: %T", action.Action)
}

// owner keeps names as names: they are looked up in the root that is changed.
func owner(asked *pb.ChownOpt) *actions.Owner {
	if asked == nil {
		return nil
	}
	return &actions.Owner{User: userText(asked.User), Group: userText(asked.Group)}
}

func userText(user *pb.UserOpt) string {
	switch one := user.GetUser().(type) {
	case *pb.UserOpt_ByName:
		return one.ByName.Name
	case *pb.UserOpt_ByID:
		return strconv.FormatUint(uint64(one.ByID), 10)
	}
	return ""
}
