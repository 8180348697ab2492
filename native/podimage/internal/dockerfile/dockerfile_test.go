package dockerfile

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"agentpod/podimage/internal/job"
)

const config = `{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:0000000000000000000000000000000000000000000000000000000000000000"]}}`

func convert(t *testing.T, text string) (*Graph, error) {
	t.Helper()
	asked := Request{Name: "Dockerfile", Content: []byte(text), Platform: "linux/amd64"}
	for round := 0; round < 3; round++ {
		answer, err := Convert(context.Background(), asked)
		if err != nil {
			return nil, err
		}
		found := answer.(Answer)
		if found.Graph != nil {
			return found.Graph, nil
		}
		for _, ref := range found.Needs {
			asked.Images = append(asked.Images, KnownImage{Ref: ref, Config: []byte(config)})
		}
	}
	t.Fatal("it asks for images again and again")
	return nil, nil
}

func TestAStageThatNothingNeedsIsNotInTheGraph(t *testing.T) {
	graph, err := convert(t, "FROM a AS unused\nRUN false\nFROM b\nRUN true\nCOPY x /\n")
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, vertex := range graph.Vertices {
		titles = append(titles, vertex.Title)
	}
	if text := strings.Join(titles, "; "); strings.Contains(text, "false") || !strings.Contains(text, "RUN true") {
		t.Errorf("the graph is %s", text)
	}
	if last := graph.Vertices[graph.Result]; last.File == nil || last.Line != 5 {
		t.Errorf("the result is %+v", last)
	}
}

func TestAnErrorNamesItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"FROM a\nNOPE x\n": "Dockerfile:2: unknown instruction: NOPE",
		"FROM a\n\nRUN --mount=type=ssh,required=true x\n": "Dockerfile:3: RUN --mount=type=ssh is not supported",
		"FROM a\nRUN --network=host x\n":                   "Dockerfile:2: ",
		"FROM a\nADD git@github.com:a/b.git /x\n":          "Dockerfile:2: ",
		"": "Dockerfile: ",
	} {
		_, err := convert(t, text)
		var known *job.Error
		if !errors.As(err, &known) || !strings.HasPrefix(known.Message, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhatAddFetchesHasTheLineOfTheInstruction(t *testing.T) {
	for _, what := range []string{"https://example.com/file", "https://example.com/a.git"} {
		graph, err := convert(t, "FROM a\nRUN true\nADD "+what+" /x\n")
		if err != nil {
			t.Fatal(err)
		}
		fetches := 0
		for _, vertex := range graph.Vertices {
			if vertex.HTTP == nil && vertex.Git == nil {
				continue
			}
			fetches++
			if vertex.Line != 3 {
				t.Errorf("%s: the line is %d", what, vertex.Line)
			}
		}
		if fetches != 1 {
			t.Errorf("%s: %d fetches", what, fetches)
		}
	}
}

// IM-07
func TestHostileFilesAreBounded(t *testing.T) {
	for _, text := range []string{
		"FROM a\n" + strings.Repeat("RUN x\n", maxVertices+1),
		"#" + strings.Repeat("x", maxContent),
		"FROM " + strings.Repeat("${a:-", 10_000),
		"\x00\xff\xfe",
	} {
		if _, err := convert(t, text); err == nil {
			t.Errorf("%.20q... was accepted", text)
		}
	}
}

func TestASelectionHasNoLessThanACopyReads(t *testing.T) {
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, name := range []string{"a.txt", "b.md", "dir/c.txt", "dir/sub/d.txt"} {
		_ = out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644})
		_, _ = out.Write([]byte("x"))
	}
	_ = out.WriteHeader(&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "dir"})
	_ = out.Close()
	files, err := readContext(&archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		asked Selection
		want  int
	}{
		{Selection{Src: "/"}, 5},
		{Selection{Src: "/dir"}, 2},
		{Selection{Src: "/*.txt", Wildcard: true}, 1},
		{Selection{Src: "/dir", Exclude: []string{"sub"}}, 1},
		// A link may lead anywhere.
		{Selection{Src: "/link"}, 5},
		{Selection{Src: "/link/sub"}, 5},
		{Selection{Src: "/none"}, 0},
	} {
		found, err := choose(files, one.asked)
		if err != nil || len(found.Files) != one.want {
			t.Errorf("%+v: %v %v", one.asked, found.Files, err)
		}
	}
}
