package feature

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"agentpod/podimage/internal/job"
)

type entry struct {
	header  tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), Uid: 1234}, content}
}

func link(name, target string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}, ""}
}

func packed(t *testing.T, isCompressed bool, entries ...entry) []byte {
	t.Helper()
	var data bytes.Buffer
	out := io.Writer(&data)
	var zipped *gzip.Writer
	if isCompressed {
		zipped = gzip.NewWriter(&data)
		out = zipped
	}
	writer := tar.NewWriter(out)
	for _, one := range entries {
		if err := writer.WriteHeader(&one.header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(one.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if zipped != nil {
		zipped.Close()
	}
	return data.Bytes()
}

func reasonOf(err error) string {
	var known *job.Error
	if errors.As(err, &known) {
		return known.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestAnArchiveIsCleanedWhetherItIsCompressedOrNot(t *testing.T) {
	good := []entry{
		{tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700}, ""},
		file("./install.sh", "#!/bin/sh\n"),
		file("devcontainer-feature.json", `{"id":"x"}`),
		{tar.Header{Name: "lib/", Typeflag: tar.TypeDir, Mode: 0o700}, ""},
		{tar.Header{Name: "lib/again", Typeflag: tar.TypeSymlink, Linkname: "../install.sh"}, ""},
		{tar.Header{Name: "lib/same", Typeflag: tar.TypeLink, Linkname: "install.sh"}, ""},
	}
	var outputs []string
	for _, isCompressed := range []bool{false, true} {
		var out bytes.Buffer
		found, err := clean(packed(t, isCompressed, good...), &out)
		if err != nil {
			t.Fatal(err)
		}
		if found.metadata != `{"id":"x"}` || !found.hasScript {
			t.Errorf("%+v", found)
		}
		outputs = append(outputs, out.String())
		reader := tar.NewReader(&out)
		var names []string
		for {
			header, err := reader.Next()
			if err != nil {
				break
			}
			names = append(names, header.Name)
			if header.Uid != 0 || !header.ModTime.Equal(fixedTime) {
				t.Errorf("%+v", header)
			}
		}
		if strings.Join(names, " ") != "install.sh devcontainer-feature.json lib/ lib/again lib/same" {
			t.Errorf("%v", names)
		}
	}
	if outputs[0] != outputs[1] {
		t.Error("compression changes the clean archive")
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	many := make([]entry, maxEntries+1)
	for i := range many {
		many[i] = file("install.sh", "")
	}
	for name, c := range map[string]struct {
		entries []entry
		reason  string
	}{
		"absolute":       {[]entry{file("/etc/passwd", "x")}, "feature.archive"},
		"above":          {[]entry{file("a/../../x", "x")}, "feature.archive"},
		"control":        {[]entry{file("a\nb", "x")}, "feature.archive"},
		"long":           {[]entry{file(strings.Repeat("a/", 400)+"x", "x")}, "feature.archive"},
		"link out":       {[]entry{{tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../x"}, ""}}, "feature.archive"},
		"link up, down":  {[]entry{{tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../../d/x"}, ""}}, "feature.archive"},
		"absolute link":  {[]entry{{tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, ""}}, "feature.archive"},
		"hard link out":  {[]entry{{tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}, ""}}, "feature.archive"},
		"device":         {[]entry{{tar.Header{Name: "d", Typeflag: tar.TypeBlock}, ""}}, "feature.archive"},
		"fifo":           {[]entry{{tar.Header{Name: "d", Typeflag: tar.TypeFifo}, ""}}, "feature.archive"},
		"below a link":   {[]entry{link("l", "."), file("l/x", "x")}, "feature.archive"},
		"through links":  {[]entry{link("l", "."), link("esc", "l/l/../..")}, "feature.archive"},
		"link to a link": {[]entry{link("l", "."), link("m", "l")}, "feature.archive"},
		"link replaced":  {[]entry{link("l", "."), {tar.Header{Name: "l/", Typeflag: tar.TypeDir}, ""}, file("l/x", "x")}, "feature.archive"},
		"many":           {many, "feature.files"},
		"two halves":     {[]entry{file("a", strings.Repeat("\x00", maxUnpacked/2+1)), file("b", strings.Repeat("\x00", maxUnpacked/2+1))}, "feature.bomb"},
		"bomb":           {[]entry{file("zeros", strings.Repeat("\x00", maxUnpacked+1))}, "feature.bomb"},
	} {
		_, err := clean(packed(t, true, c.entries...), io.Discard)
		if reasonOf(err) != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{"text": []byte(strings.Repeat("no archive ", 100)), "cut": packed(t, true, file("install.sh", "x"))[:30]} {
		if _, err := clean(data, io.Discard); reasonOf(err) != "feature.damaged" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Go's writer makes no sparse files, so the names of the records are put in afterwards.
func TestASparseFileIsRefusedBeforeItIsWritten(t *testing.T) {
	sparse := file("zeros", "x")
	sparse.header.PAXRecords = map[string]string{"ZZZ.sparse.major": "0", "ZZZ.sparse.minor": "1", "ZZZ.sparse.numblocks": "1", "ZZZ.sparse.size": "1000000000000", "ZZZ.sparse.map": "0,1"}
	data := bytes.ReplaceAll(packed(t, false, sparse), []byte("ZZZ.sparse"), []byte("GNU.sparse"))
	header, err := tar.NewReader(bytes.NewReader(data)).Next()
	if err != nil || header.Size != 1_000_000_000_000 {
		t.Fatalf("the reader takes it for something else: %+v, %v", header, err)
	}
	var out bytes.Buffer
	if _, err := clean(data, &out); reasonOf(err) != "feature.archive" || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
}
