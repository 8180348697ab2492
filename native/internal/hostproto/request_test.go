package hostproto

import (
	"fmt"
	"strings"
	"testing"
)

const createLine = `{"v":1,"id":7,"op":"sandbox.create","args":{"id":"k3x9","owner":"server-1","hostname":"box",` +
	`"root":{"kind":"layers","layers":["` + digest + `"]},"resources":{"memoryBytes":1048576,"cpus":0.5},"deadlineMs":0}}`

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestAValidCreateRequestIsParsed(t *testing.T) {
	request, err := Parse([]byte(createLine))
	if err != nil {
		t.Fatal(err)
	}
	args, ok := request.Args.(CreateSandbox)
	if !ok || *request.ID != 7 || args.ID != "k3x9" || args.Root.Layers[0] != digest || args.Resources.CPUs != 0.5 {
		t.Fatalf("read as %+v", request)
	}
}

// shots are the ids of n snapshots as in a list.
func shots(n int) string {
	var list []string
	for i := 0; i < n; i++ {
		list = append(list, fmt.Sprintf(`"shot%d"`, i))
	}
	return strings.Join(list, ",")
}

func TestSnapshotsCanCoverEitherKindOfRoot(t *testing.T) {
	for base, layers := range map[string]int{
		`"kind":"host"`: 0,
		`"kind":"layers","layers":["` + digest + `"]`: 1,
	} {
		line := strings.Replace(createLine, `"kind":"layers","layers":["`+digest+`"]`, base+`,"over":[`+shots(MaxOver)+`]`, 1)
		request, err := Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		root := request.Args.(CreateSandbox).Root
		if len(root.Layers) != layers || len(root.Over) != MaxOver || root.Over[0] != "shot0" || !root.UsesSnapshot("shot63") || root.UsesSnapshot("shot64") {
			t.Errorf("read as %+v", root)
		}
	}
}

func TestRootsAreEqualOnlyInEveryPartAndOrder(t *testing.T) {
	root := Root{Kind: "layers", Layers: []string{"a", "b"}, Over: []string{"one", "two"}}
	if !root.Equal(Root{Kind: "layers", Layers: []string{"a", "b"}, Over: []string{"one", "two"}}) {
		t.Error("a root differs from itself")
	}
	for _, other := range []Root{
		{Kind: "host", Layers: root.Layers, Over: root.Over},
		{Kind: "layers", Layers: []string{"b", "a"}, Over: root.Over},
		{Kind: "layers", Layers: root.Layers, Over: []string{"two", "one"}},
		{Kind: "layers", Layers: root.Layers, Over: []string{"one"}},
		{Kind: "layers", Layers: root.Layers},
	} {
		if root.Equal(other) || other.Equal(root) {
			t.Errorf("%+v is taken for %+v", other, root)
		}
	}
}

func TestARootExtendsTheRootThatItBeginsWith(t *testing.T) {
	root := Root{Kind: "layers", Layers: []string{"a"}, Over: []string{"one", "two"}}
	for _, begin := range []Root{root, {Kind: "layers", Layers: root.Layers}, {Kind: "layers", Layers: root.Layers, Over: []string{"one"}}} {
		if !root.Extends(begin) {
			t.Errorf("%+v is not taken for the beginning of %+v", begin, root)
		}
	}
	for _, other := range []Root{
		{Kind: "host", Over: []string{"one"}},
		{Kind: "layers", Layers: []string{"b"}, Over: []string{"one"}},
		{Kind: "layers", Layers: root.Layers, Over: []string{"two"}},
		{Kind: "layers", Layers: root.Layers, Over: []string{"two", "one"}},
		{Kind: "layers", Layers: root.Layers, Over: []string{"one", "two", "three"}},
	} {
		if root.Extends(other) {
			t.Errorf("%+v is taken for the beginning of %+v", other, root)
		}
	}
}

func TestWhenOverIsDestroyByDefault(t *testing.T) {
	for said, want := range map[string]string{``: OverDestroy, `,"whenOver":"pause"`: OverPause, `,"whenOver":"stop","snapshot":"ab12"`: OverStop} {
		request, err := Parse([]byte(strings.Replace(createLine, `"deadlineMs":0`, `"deadlineMs":0`+said, 1)))
		if err != nil || request.Args.(CreateSandbox).WhenOver != want {
			t.Errorf("%q: %+v %v", said, request, err)
		}
	}
}

func TestAMalformedRequestIsRefused(t *testing.T) {
	inspect := func(id string) string { return `{"v":1,"id":1,"op":"sandbox.inspect","args":{"id":` + id + `}}` }
	create := func(old, new string) string { return strings.Replace(createLine, old, new, 1) }
	cases := map[string]string{
		"empty line":               ``,
		"not JSON":                 `hello`,
		"binary":                   "\x00\xff\xfe{}",
		"an array":                 `[]`,
		"null":                     `null`,
		"two objects":              `{"v":1,"id":1,"op":"hello","args":{}}{}`,
		"no version":               `{"id":1,"op":"hello","args":{}}`,
		"another version":          `{"v":2,"id":1,"op":"hello","args":{}}`,
		"version as text":          `{"v":"1","id":1,"op":"hello","args":{}}`,
		"no args":                  `{"v":1,"id":1,"op":"hello"}`,
		"args as array":            `{"v":1,"id":1,"op":"hello","args":[]}`,
		"args null":                `{"v":1,"id":1,"op":"hello","args":null}`,
		"an unknown op":            `{"v":1,"id":1,"op":"sandbox.exec","args":{}}`,
		"an unknown key":           `{"v":1,"id":1,"op":"hello","args":{},"extra":1}`,
		"an unknown argument":      `{"v":1,"id":1,"op":"hello","args":{"x":1}}`,
		"a key in another case":    `{"v":1,"id":1,"op":"sandbox.inspect","args":{"ID":"abcd"}}`,
		"a key twice":              `{"v":1,"id":1,"op":"sandbox.inspect","args":{"id":"abcd","id":"efgh"}}`,
		"a negative request id":    `{"v":1,"id":-1,"op":"hello","args":{}}`,
		"a fractional request id":  `{"v":1,"id":1.5,"op":"hello","args":{}}`,
		"a huge request id":        `{"v":1,"id":99999999999999999999,"op":"hello","args":{}}`,
		"id with dots":             inspect(`"../../etc"`),
		"id with slash":            inspect(`"ab/cd"`),
		"id with newline":          inspect(`"abcd\n"`),
		"id with zero byte":        inspect(`"abcd\u0000"`),
		"id too short":             inspect(`"abc"`),
		"id too long":              inspect(`"` + strings.Repeat("a", 21) + `"`),
		"id in capitals":           inspect(`"ABCD"`),
		"id as number":             inspect(`1234`),
		"id as null":               inspect(`null`),
		"id as list":               inspect(`["abcd"]`),
		"id of lookalikes":         inspect(`"аbcd"`),
		"deep nesting":             inspect(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"owner with space":         create(`server-1`, `server 1`),
		"owner empty":              create(`server-1`, ``),
		"hostname with dot":        create(`"box"`, `"box.example"`),
		"hostname with quote":      create(`"box"`, `"b\"x"`),
		"hostname with dash first": create(`"box"`, `"-box"`),
		"an unknown root":          create(`"layers","layers"`, `"image","layers"`),
		"host root with layers":    create(`"kind":"layers"`, `"kind":"host"`),
		"no layers":                create(`["`+digest+`"]`, `[]`),
		"digest too short":         create(digest, digest[1:]),
		"digest as path":           create(digest, "../"+digest[3:]),
		"digest in capitals":       create(digest, strings.ToUpper(digest)),
		"too many layers":          create(`"`+digest+`"`, strings.Repeat(`"`+digest+`",`, MaxLayers)+`"`+digest+`"`),
		"over as text":             create(`"kind":"layers"`, `"kind":"layers","over":"shot"`),
		"over of nothing":          create(`"kind":"layers"`, `"kind":"layers","over":[]`),
		"over null":                create(`"kind":"layers"`, `"kind":"layers","over":null`),
		"over as path":             create(`"kind":"layers"`, `"kind":"layers","over":["../shot"]`),
		"over by digest":           create(`"kind":"layers"`, `"kind":"layers","over":["`+digest+`"]`),
		"over twice the same":      create(`"kind":"layers"`, `"kind":"layers","over":["shot1","shot2","shot1"]`),
		"too many over":            create(`"kind":"layers"`, `"kind":"layers","over":[`+shots(MaxOver+1)+`]`),
		"too many over layers":     create(`"`+digest+`"]`, strings.Repeat(`"`+digest+`",`, MaxLayers-MaxOver)+`"`+digest+`"],"over":[`+shots(MaxOver)+`]`),
		"negative memory":          create(`1048576`, `-1`),
		"memory as text":           create(`1048576`, `"1048576"`),
		"memory beyond bounds":     create(`1048576`, `9007199254740991`),
		"memory with exponent":     create(`1048576`, `1e6`),
		"cpus negative":            create(`0.5`, `-0.5`),
		"cpus huge":                create(`0.5`, `1e300`),
		"an unknown resource":      create(`"cpus"`, `"gpus"`),
		"a resource on prototype":  create(`"cpus"`, `"__proto__"`),
		"deadline as text":         create(`"deadlineMs":0`, `"deadlineMs":"0"`),
		"deadline missing":         create(`,"deadlineMs":0`, ``),
		"file outside":             `{"v":1,"id":1,"op":"layer.import","args":{"digest":"` + digest + `","file":"../host.json"}}`,
		"file absolute":            `{"v":1,"id":1,"op":"layer.import","args":{"digest":"` + digest + `","file":"/etc/passwd"}}`,
		"file dotted":              `{"v":1,"id":1,"op":"layer.import","args":{"digest":"` + digest + `","file":".."}}`,
		"an unknown end":           create(`"deadlineMs":0`, `"deadlineMs":0,"whenOver":"keep"`),
		"an empty end":             create(`"deadlineMs":0`, `"deadlineMs":0,"whenOver":""`),
		"snapshot as path":         create(`"deadlineMs":0`, `"deadlineMs":0,"snapshot":"../ab"`),
		"snapshot as null":         create(`"deadlineMs":0`, `"deadlineMs":0,"snapshot":null`),
		"disk as text":             create(`"cpus"`, `"diskBytes":"1","cpus"`),
		"start from a snapshot":    strings.Replace(create(`"deadlineMs":0`, `"deadlineMs":0,"snapshot":"abcd"`), "sandbox.create", "sandbox.start", 1),
		"resume without deadline":  `{"v":1,"id":1,"op":"sandbox.resume","args":{"id":"abcd"}}`,
		"pause with a deadline":    `{"v":1,"id":1,"op":"sandbox.pause","args":{"id":"abcd","deadlineMs":0}}`,
		"snapshot id in capitals":  `{"v":1,"id":1,"op":"snapshot.remove","args":{"id":"ABCD"}}`,
		"snapshot of nothing":      `{"v":1,"id":1,"op":"snapshot.create","args":{"id":"abcd","owner":"o"}}`,
		"snapshot of a path":       `{"v":1,"id":1,"op":"snapshot.create","args":{"id":"abcd","owner":"o","sandbox":"../x"}}`,
		"export outside":           `{"v":1,"id":1,"op":"snapshot.export","args":{"id":"abcd","file":"../x"}}`,
		"export to a subdirectory": `{"v":1,"id":1,"op":"layer.export","args":{"digest":"` + digest + `","file":"a/b"}}`,
		"import without a root":    `{"v":1,"id":1,"op":"snapshot.import","args":{"id":"abcd","owner":"o","file":"x","digest":"` + digest + `"}}`,
		"import of another root":   `{"v":1,"id":1,"op":"snapshot.import","args":{"id":"abcd","owner":"o","root":{"kind":"disk"},"file":"x","digest":"` + digest + `"}}`,
		"file with option":         `{"v":1,"id":1,"op":"layer.import","args":{"digest":"` + digest + `","file":""}}`,
	}
	for name, line := range cases {
		t.Run(name, func(t *testing.T) {
			request, err := Parse([]byte(line))
			if err == nil {
				t.Fatalf("accepted as %+v", request)
			}
			if err.Code != InvalidArgument || err.Message == "" || len(err.Message) > 1000 {
				t.Fatalf("refused as %+v", err)
			}
		})
	}
}

func areIDs(list []string) bool {
	for _, id := range list {
		if !IsID(id) {
			return false
		}
	}
	return len(list) <= MaxOver
}

// FuzzParse looks for panics and for values that pass without matching their grammar.
func FuzzParse(f *testing.F) {
	f.Add([]byte(createLine))
	f.Add([]byte(strings.Replace(createLine, `"kind":"layers"`, `"kind":"layers","over":["shot1","shot2"]`, 1)))
	f.Add([]byte(`{"v":1,"id":1,"op":"layer.import","args":{"digest":"` + digest + `","file":"x.tar"}}`))
	f.Add([]byte(`{"v":1,"id":1,"op":"snapshot.import","args":{"id":"abcd","owner":"o","root":{"kind":"host"},"file":"x","digest":"` + digest + `"}}`))
	f.Add([]byte(`{"v":1,"id":1,"op":"snapshot.create","args":{"id":"abcd","owner":"o","sandbox":"efgh"}}`))
	f.Add([]byte(`{"v":1,"id":1,"op":"sandbox.resume","args":{"id":"abcd","deadlineMs":1}}`))
	f.Add([]byte(`{"v":1,"id":1,"op":"sandbox.list","args":{"after":"abcd"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		request, err := Parse(line)
		if err != nil {
			return
		}
		switch args := request.Args.(type) {
		case SandboxID:
			if !IsID(args.ID) {
				t.Fatalf("id %q passed", args.ID)
			}
		case CreateSandbox:
			if !IsID(args.ID) || !hostnameGrammar.MatchString(args.Hostname) || args.Resources.MemoryBytes < 0 ||
				!overGrammar.MatchString(args.WhenOver) || (args.Snapshot != "" && !IsID(args.Snapshot)) || !areIDs(args.Root.Over) {
				t.Fatalf("%+v passed", args)
			}
			for _, m := range args.Mounts {
				if m.Path[0] != '/' || m.Path == "/" || strings.Contains(m.Path+"/", "/../") || (m.Root == nil) == (m.Volume == "") {
					t.Fatalf("%+v passed", m)
				}
			}
		case CreateSnapshot:
			if !IsID(args.ID) || !IsID(args.Sandbox) {
				t.Fatalf("%+v passed", args)
			}
		case ImportSnapshot:
			if !IsID(args.ID) || !IsDigest(args.Digest) || strings.ContainsAny(args.File, "/\x00") || !kindGrammar.MatchString(args.Root.Kind) {
				t.Fatalf("%+v passed", args)
			}
		case LayerFile:
			if !IsDigest(args.Digest) || strings.ContainsAny(args.File, "/\x00") || args.File == ".." {
				t.Fatalf("%+v passed", args)
			}
		}
	})
}

func TestAPathInsideIsAbsoluteAndPlain(t *testing.T) {
	line := func(path string) []byte {
		return []byte(`{"v":1,"id":7,"op":"sandbox.changes","args":{"id":"k3x9","path":"` + path + `"}}`)
	}
	request, err := Parse(line("/home/user/ü and more"))
	if err != nil || request.Args.(SandboxPath) != (SandboxPath{ID: "k3x9", Path: "/home/user/ü and more"}) {
		t.Errorf("%+v, %v", request, err)
	}
	for _, path := range []string{"", "/", "home", "/home/", "//home", `/a\nb`, `/a\u0000b`} {
		if _, err := Parse(line(path)); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
}

func TestMountsAreParsedStrictly(t *testing.T) {
	line := func(mounts string) []byte {
		return []byte(`{"v":1,"id":7,"op":"sandbox.create","args":{"id":"k3x9","owner":"me","hostname":"box","root":{"kind":"host"},` +
			`"resources":{},"deadlineMs":0,"mounts":` + mounts + `}}`)
	}
	digest := strings.Repeat("a", 64)
	request, err := Parse(line(`[{"kind":"volume","volume":"vol1","path":"/data","readOnly":true},
		{"kind":"root","path":"/from","root":{"kind":"layers","layers":["` + digest + `"],"over":["shot1"]}}]`))
	if err != nil {
		t.Fatal(err)
	}
	mounts := request.Args.(CreateSandbox).Mounts
	if len(mounts) != 2 || mounts[0] != (Mount{Kind: "volume", Volume: "vol1", Path: "/data", ReadOnly: true}) || !mounts[1].Root.UsesSnapshot("shot1") {
		t.Errorf("%+v", mounts)
	}
	for _, bad := range []string{
		`null`, `{}`, `"x"`, `[null]`, `[{}]`,
		`[{"kind":"volume","path":"/data"}]`,
		`[{"kind":"volume","path":"/data","volume":"vol1","root":{"kind":"host"}}]`,
		`[{"kind":"bind","path":"/data","volume":"vol1"}]`,
		`[{"kind":"root","path":"/data","volume":"vol1"}]`,
		`[{"kind":"root","path":"/data","root":{"kind":"host"}}]`,
		`[{"kind":"volume","path":"/data","volume":"../x"}]`,
		`[{"kind":"volume","path":"/data","volume":"vol1","readOnly":1}]`,
		`[{"kind":"volume","path":"/data","volume":"vol1","source":"/etc"}]`,
		`[{"kind":"volume","path":"/data","volume":"vol1","takesOwner":true}]`,
		`[{"kind":"tmpfs","path":"/data","takesOwner":1}]`,
		`[{"kind":"volume","path":"/a/../etc","volume":"vol1"}]`,
		`[{"kind":"volume","path":"/etc/x","volume":"vol1"}]`,
		`[{"kind":"volume","path":"/` + strings.Repeat("x", 1024) + `","volume":"vol1"}]`,
		`[` + strings.Repeat(`{"kind":"volume","path":"/a","volume":"vol1"},`, 32) + `{"kind":"volume","path":"/b","volume":"vol1"}]`,
	} {
		if request, err := Parse(line(bad)); err == nil {
			t.Errorf("%s is accepted: %+v", bad, request)
		}
	}
}
