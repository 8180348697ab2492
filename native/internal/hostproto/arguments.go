package hostproto

import (
	"regexp"
	"strconv"
)

func parseArgs(op string, raw []byte) (any, *Error) {
	switch op {
	case "probe":
		o := parseObject("args", raw, nil, []string{"runtime"})
		return Probe{Runtime: o.text("runtime", runtimeGrammar)}, o.err
	case "hello", "layer.list", "clear", "shutdown":
		o := parseObject("args", raw, nil, nil)
		return NoArgs{}, o.err
	case "sandbox.inspect", "sandbox.stats", "sandbox.destroy", "sandbox.pause", "sandbox.save", "sandbox.stop":
		o := parseObject("args", raw, []string{"id"}, nil)
		return SandboxID{ID: o.text("id", idGrammar)}, o.err
	case "sandbox.changes":
		o := parseObject("args", raw, []string{"id", "path"}, nil)
		return SandboxPath{ID: o.text("id", idGrammar), Path: o.text("path", pathGrammar)}, o.err
	case "sandbox.list", "snapshot.list", "volume.list":
		o := parseObject("args", raw, nil, []string{"after"})
		return List{After: o.text("after", idGrammar)}, o.err
	case "sandbox.deadline", "sandbox.resume":
		o := parseObject("args", raw, []string{"id", "deadlineMs"}, nil)
		return SetDeadline{ID: o.text("id", idGrammar), DeadlineMs: o.integer("deadlineMs", maxSafeInteger)}, o.err
	case "sandbox.create":
		return parseCreate(raw, []string{"whenOver", "snapshot", "mounts", "rootDirs", "runtime", "memory", "docker"})
	case "sandbox.start", "sandbox.restore":
		return parseCreate(raw, []string{"whenOver", "mounts", "rootDirs", "runtime", "docker"})
	case "snapshot.create", "snapshot.remove", "snapshot.export", "snapshot.import":
		return parseSnapshotArgs(op, raw)
	case "volume.create":
		o := parseObject("args", raw, []string{"id", "owner"}, []string{"sizeBytes"})
		return CreateVolume{ID: o.text("id", idGrammar), Owner: o.text("owner", ownerGrammar), SizeBytes: o.integer("sizeBytes", maxBytes)}, o.err
	case "volume.stats", "volume.remove":
		o := parseObject("args", raw, []string{"id"}, nil)
		return VolumeID{ID: o.text("id", idGrammar)}, o.err
	case "layer.import", "layer.export":
		o := parseObject("args", raw, []string{"digest", "file"}, nil)
		return LayerFile{Digest: o.text("digest", digestGrammar), File: o.text("file", fileGrammar)}, o.err
	case "layer.remove":
		o := parseObject("args", raw, []string{"digest"}, nil)
		return LayerDigest{Digest: o.text("digest", digestGrammar)}, o.err
	}
	return nil, Errorf(InvalidArgument, "request.op", "there is no operation %q", op)
}

func parseSnapshotArgs(op string, raw []byte) (any, *Error) {
	switch op {
	case "snapshot.create":
		o := parseObject("args", raw, []string{"id", "owner", "sandbox"}, []string{"memory"})
		return CreateSnapshot{ID: o.text("id", idGrammar), Owner: o.text("owner", ownerGrammar), Sandbox: o.text("sandbox", idGrammar),
			Memory: o.boolean("memory")}, o.err
	case "snapshot.remove":
		o := parseObject("args", raw, []string{"id"}, nil)
		return SnapshotID{ID: o.text("id", idGrammar)}, o.err
	case "snapshot.export":
		o := parseObject("args", raw, []string{"id", "file"}, nil)
		return ExportSnapshot{ID: o.text("id", idGrammar), File: o.text("file", fileGrammar)}, o.err
	}
	o := parseObject("args", raw, []string{"id", "owner", "root", "file", "digest"}, []string{"runtime"})
	args := ImportSnapshot{ID: o.text("id", idGrammar), Owner: o.text("owner", ownerGrammar), File: o.text("file", fileGrammar),
		Digest: o.text("digest", digestGrammar), Runtime: o.text("runtime", runtimeGrammar)}
	if o.err != nil {
		return nil, o.err
	}
	var err *Error
	args.Root, err = parseRoot(o.fields["root"])
	return args, err
}

func parseRoot(raw []byte) (Root, *Error) {
	o := parseObject("args.root", raw, []string{"kind"}, []string{"layers", "over"})
	root := Root{Kind: o.text("kind", kindGrammar), Layers: o.texts("layers", digestGrammar, MaxLayers), Over: o.texts("over", idGrammar, MaxOver)}
	if _, there := o.fields["layers"]; o.err == nil && there != (root.Kind == "layers") {
		o.fail("layers", "is required for kind \"layers\" and not allowed for others")
	}
	if len(root.Layers)+len(root.Over) > MaxLayers {
		o.fail("over", "has, with the layers, more than "+strconv.Itoa(MaxLayers)+" entries")
	}
	for i, id := range root.Over {
		if contains(root.Over[:i], id) {
			o.fail("over", "names a snapshot twice")
		}
	}
	return root, o.err
}

func parseCreate(raw []byte, optional []string) (any, *Error) {
	o := parseObject("args", raw, []string{"id", "owner", "hostname", "root", "resources", "deadlineMs"}, optional)
	args := CreateSandbox{
		ID:         o.text("id", idGrammar),
		Owner:      o.text("owner", ownerGrammar),
		Hostname:   o.text("hostname", hostnameGrammar),
		DeadlineMs: o.integer("deadlineMs", maxSafeInteger),
		WhenOver:   o.text("whenOver", overGrammar),
		Snapshot:   o.text("snapshot", idGrammar),
		Runtime:    o.text("runtime", runtimeGrammar),
		Memory:     o.boolean("memory"),
		Docker:     o.boolean("docker"),
		RootDirs:   o.texts("rootDirs", rootDirGrammar, 2),
	}
	if o.err != nil {
		return nil, o.err
	}
	if args.WhenOver == "" {
		args.WhenOver = OverDestroy
	}
	// SECURITY: on the host's kernel, these capabilities would reach the host.
	if args.Docker && args.Runtime != "gvisor" && args.Runtime != "qemu" {
		return nil, Errorf(Unsupported, "docker.kernel", "a Docker engine needs a sandbox with a kernel of its own").
			WithHint("create it with `--isolation gvisor` or `--isolation vm`")
	}
	var err *Error
	if args.Root, err = parseRoot(o.fields["root"]); err != nil {
		return nil, err
	}
	if args.Mounts, err = parseMounts(o.fields["mounts"], args.RootDirs); err != nil {
		return nil, err
	}
	args.Resources, err = parseResources(o.fields["resources"])
	return args, err
}

// rootDirGrammar: only these may be part of the root.
var rootDirGrammar = regexp.MustCompile(`\A/(tmp|run)\z`)

// maxBytes bounds sizes.
const maxBytes = 1 << 50

func parseResources(raw []byte) (Resources, *Error) {
	r := parseObject("args.resources", raw, nil,
		[]string{"memoryBytes", "swapBytes", "cpus", "pids", "files", "tmpBytes", "shmBytes", "diskBytes"})
	return Resources{
		MemoryBytes: r.integer("memoryBytes", maxBytes),
		SwapBytes:   r.integer("swapBytes", maxBytes),
		CPUs:        r.number("cpus", 4096),
		Pids:        r.integer("pids", 1<<22),
		Files:       r.integer("files", 1<<30),
		TmpBytes:    r.integer("tmpBytes", maxBytes),
		ShmBytes:    r.integer("shmBytes", maxBytes),
		DiskBytes:   r.integer("diskBytes", maxBytes),
	}, r.err
}
