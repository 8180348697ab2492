package layers

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

	"agentpod/podimage/internal/job"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const ociTar = "application/vnd.oci.image.layer.v1.tar"

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return out.Bytes()
}

func reasonOf(err error) string {
	var known *job.Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
}

func TestALayerIsUnpackedAsItsTypeSaysAndChecked(t *testing.T) {
	data := bytes.Repeat([]byte("content "), 1000)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		blob   []byte
		kind   string
		diffID string
		limit  int64
		reason string
	}{
		"plain":            {data, ociTar, digest(data), 1 << 30, ""},
		"gzip":             {zipped(t, data), ociTar + "+gzip", digest(data), 1 << 30, ""},
		"zstd":             {encoder.EncodeAll(data, nil), ociTar + "+zstd", digest(data), 1 << 30, ""},
		"two gzip members": {append(zipped(t, data[:80]), zipped(t, data[80:])...), ociTar + "+gzip", digest(data), 1 << 30, ""},
		"another diff id":  {data, ociTar, digest([]byte("x")), 1 << 30, "image.diff_id"},
		"too large":        {zipped(t, data), ociTar + "+gzip", digest(data), 100, "image.bomb"},
		"gzip as tar":      {zipped(t, data), ociTar, digest(data), 1 << 30, "image.media_type"},
		"tar as gzip":      {data, ociTar + "+gzip", digest(data), 1 << 30, "image.media_type"},
		"cut gzip":         {zipped(t, data)[:40], ociTar + "+gzip", digest(data), 1 << 30, "image.damaged"},
		"cut zstd":         {encoder.EncodeAll(data, nil)[:20], ociTar + "+zstd", digest(data), 1 << 30, "image.damaged"},
	} {
		var out bytes.Buffer
		layer := job.Layer{Digest: digest(c.blob), Size: int64(len(c.blob)), MediaType: c.kind, DiffID: c.diffID}
		_, err := unpack(bytes.NewReader(c.blob), &out, layer, c.limit)
		if reasonOf(err) != c.reason || c.reason == "" && (err != nil || !bytes.Equal(out.Bytes(), data)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func archive(t *testing.T, headers ...tar.Header) *tar.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range headers {
		header := headers[i]
		header.Format = tar.FormatPAX
		header.Size = int64(len(header.Gname))
		content := header.Gname
		header.Gname = ""
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return tar.NewReader(&out)
}

// The content of a test's file is in Gname, which no archive of podhost has.
func TestAPushedLayerHasNoFilesOfOneSandbox(t *testing.T) {
	newest := time.Unix(1000, 0)
	var out bytes.Buffer
	c := &converter{Convert: job.Convert{Prefix: "root", NewestTime: 1000}, out: tar.NewWriter(&out), dropped: map[string]bool{".agentpod": true, "etc/hosts": true}}
	err := c.copy(archive(t,
		tar.Header{Name: "root/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "root/.agentpod/podd", Typeflag: tar.TypeReg, Gname: "x"},
		tar.Header{Name: "root/etc/hosts", Typeflag: tar.TypeReg, Gname: "x"},
		tar.Header{Name: "root/etc/.wh.hosts", Typeflag: tar.TypeReg},
		tar.Header{Name: "root/etc/ssl/certs/ca-certificates.crt", Typeflag: tar.TypeReg, Gname: "own\n# AgentPod: ours\n"},
		tar.Header{Name: "root/file", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 5, ModTime: time.Unix(5000, 7), Gname: "x",
			PAXRecords: map[string]string{"SCHILY.xattr.user.note": "y"}},
		tar.Header{Name: "root/link", Typeflag: tar.TypeLink, Linkname: "root/file"},
		tar.Header{Name: "root/.wh.gone", Typeflag: tar.TypeReg},
	))
	if err != nil {
		t.Fatal(err)
	}
	c.out.Close()
	found := map[string]*tar.Header{}
	contents := map[string]string{}
	for in := tar.NewReader(&out); ; {
		header, err := in.Next()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(in)
		found[header.Name], contents[header.Name] = header, string(data)
	}
	if len(found) != 4 || found[".wh.gone"] == nil || found["link"].Linkname != "file" {
		t.Fatalf("%v", found)
	}
	file := found["file"]
	if !file.ModTime.Equal(newest) || file.Mode != 0o4755 || file.Uid != 5 || file.PAXRecords["SCHILY.xattr.user.note"] != "y" {
		t.Errorf("%+v", file)
	}
	if text := contents["etc/ssl/certs/ca-certificates.crt"]; text != "own\n" {
		t.Errorf("the bundle is %q", text)
	}
	c.dropped = map[string]bool{}
	for name, reason := range map[string]string{"usr/bin/x": "image.push_base", "root/.wh.real": "image.push_name"} {
		header := tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{literalRecord: "1"}}
		if err := c.entry(&header, bytes.NewReader(nil)); reasonOf(err) != reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}
