package guest

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"agentpod/native/internal/archive"
	"agentpod/native/internal/connect"
	"agentpod/native/internal/files"
)

const (
	transferBuffer = 256 << 10
	maxParts       = 10_000
	metadataHeader = "X-Metadata-"
)

// download sends one file. It opens the file as the user; the bytes may then be read with any identity.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	file, err := s.openDownload(r)
	if err != nil {
		connect.WriteError(w, err)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		connect.WriteError(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Disposition", "inline; filename*=UTF-8''"+url.PathEscape(path.Base(file.Name())))
	header.Set("Vary", "Accept-Encoding")
	// fetch offers gzip on every request, although compressing costs more than it saves. A client that
	// accepts only gzip wants it.
	if r.Header.Get("Accept-Encoding") == "gzip" && r.Header.Get("Range") == "" {
		header.Set("Content-Encoding", "gzip")
		zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		copyFile(zipped, file.Reader(), r)
		zipped.Close()
		return
	}
	if file.Unsized {
		copyFile(w, file.Reader(), r)
		return
	}
	if r.Header.Get("Range") != "" || r.Header.Get("If-Modified-Since") != "" {
		http.ServeContent(w, r, "", info.ModTime(), file.File)
		return
	}
	header.Set("Last-Modified", info.ModTime().UTC().Format(http.TimeFormat))
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	copyFile(w, io.LimitReader(file, info.Size()), r)
}

func (s *Server) openDownload(r *http.Request) (files.Source, error) {
	actor, full, err := s.resolve(r, r.URL.Query().Get("path"))
	if err != nil {
		return files.Source{}, err
	}
	return actor.OpenRead(full)
}

// copyFile breaks the connection if the file cannot be read to its end, so that the client does not mistake a
// part for the whole.
func copyFile(w io.Writer, source io.Reader, r *http.Request) {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{source}, make([]byte, transferBuffer))
	if err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler)
	}
}

type uploadAnswer struct {
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// upload writes one file from a plain body, or the parts of a form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	actor, err := s.actorOf(r)
	if err != nil {
		connect.WriteError(w, err)
		return
	}
	u := uploader{server: s, actor: actor, metadata: metadataOf(r.Header), path: r.URL.Query().Get("path")}
	err = u.run(r)
	if err != nil {
		connect.WriteError(w, err)
		return
	}
	connect.WriteJSON(w, http.StatusOK, u.done)
}

type uploader struct {
	server   *Server
	actor    files.Actor
	metadata map[string]string
	path     string
	done     []uploadAnswer
}

func (u *uploader) run(r *http.Request) error {
	body, err := decodedBody(r)
	if err != nil {
		return err
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/octet-stream":
		if u.path == "" {
			return connect.Errorf(connect.InvalidArgument, "path is missing")
		}
		return u.store(u.path, body)
	case err == nil && kind == "multipart/form-data" && parameters["boundary"] != "":
		return u.parts(multipart.NewReader(body, parameters["boundary"]))
	}
	e := connect.Errorf(connect.InvalidArgument, "the body must be multipart/form-data or application/octet-stream")
	e.Status = http.StatusUnsupportedMediaType
	return e
}

// parts stores each part named "file". With path= there is one; without it a part's filename is its path.
func (u *uploader) parts(form *multipart.Reader) error {
	for count := 0; ; count++ {
		part, err := form.NextPart()
		if err == io.EOF {
			if len(u.done) == 0 {
				u.done = []uploadAnswer{}
			}
			return nil
		}
		if err != nil {
			return connect.Errorf(connect.InvalidArgument, "the form cannot be parsed: %v", err)
		}
		if count >= maxParts {
			return connect.TooLarge("the form has more than %d parts", maxParts)
		}
		if part.FormName() != "file" {
			continue
		}
		target := u.path
		if target == "" {
			target = fileName(part)
		}
		if target == "" {
			return connect.Errorf(connect.InvalidArgument, "a part has no filename, and the call has no path")
		}
		if u.path != "" && len(u.done) > 0 {
			return connect.Errorf(connect.InvalidArgument, "path names one file, but the form contains several")
		}
		if err := u.store(target, part); err != nil {
			return err
		}
	}
}

// fileName is the whole filename of a part. multipart's own accessor keeps only its last element.
func fileName(part *multipart.Part) string {
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return parameters["filename"]
}

func (u *uploader) store(name string, body io.Reader) error {
	_, _, workdir, _ := u.server.settings.view()
	full, err := u.actor.User.Resolve(name, workdir)
	if err != nil {
		return err
	}
	file, err := u.actor.OpenWrite(full, u.metadata)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{body}, make([]byte, transferBuffer))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = connect.Errorf(connect.InvalidArgument, "the body ended early")
	}
	if err == nil {
		u.done = append(u.done, uploadAnswer{path.Base(full), full, "file", u.metadata})
	}
	return err
}

// decodedBody decompresses gzip, with limits that make a decompression bomb harmless.
func decodedBody(r *http.Request) (io.Reader, error) {
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return r.Body, nil
	case "gzip":
	default:
		e := connect.Errorf(connect.Unimplemented, "encoding %.40q is not supported; use gzip", r.Header.Get("Content-Encoding"))
		e.Status = http.StatusUnsupportedMediaType
		return nil, e
	}
	meter := archive.NewMeter(r.Body)
	unzipped, err := gzip.NewReader(meter)
	if err != nil {
		return nil, connect.Errorf(connect.InvalidArgument, "the body is not valid gzip")
	}
	return meter.Output(unzipped), nil
}

func metadataOf(header http.Header) map[string]string {
	var metadata map[string]string
	for name, values := range header {
		if strings.HasPrefix(name, metadataHeader) && len(name) > len(metadataHeader) {
			if metadata == nil {
				metadata = map[string]string{}
			}
			metadata[strings.ToLower(name[len(metadataHeader):])] = values[0]
		}
	}
	return metadata
}

// unpack receives a tar stream.
func (s *Server) unpack(w http.ResponseWriter, r *http.Request) {
	encoding := r.Header.Get("Content-Encoding")
	if encoding != "" && encoding != "identity" && encoding != "gzip" {
		connect.WriteError(w, connect.Errorf(connect.Unimplemented, "encoding %.40q is not supported; use gzip", encoding))
		return
	}
	user, dir, err := s.settings.pathOf(r)
	if err == nil {
		err = user.As(func() error { return archive.Unpack(dir, r.Body, encoding == "gzip") })
	}
	connect.WriteUnary(w, empty{}, err)
}

// pack sends a tree as a tar stream. A failure after the first byte breaks the connection.
func (s *Server) pack(w http.ResponseWriter, r *http.Request) {
	user, name, err := s.settings.pathOf(r)
	began := false
	if err == nil {
		err = user.As(func() error {
			return archive.Pack(name, func() io.Writer {
				began = true
				w.Header().Set("Content-Type", "application/x-tar")
				return w
			})
		})
	}
	switch {
	case err != nil && began:
		panic(http.ErrAbortHandler)
	case err != nil:
		connect.WriteError(w, err)
	}
}
