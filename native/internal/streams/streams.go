// Package streams carries podd's connections over one byte stream. The stream speaks HTTP/2, and each of its
// CONNECT streams is one connection (spec/guest-protocol.md, "Transports").
package streams

import (
	"log"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

const (
	// maxStreams is enough for all connections of podd's server, and as many of the egress.
	maxStreams = 2048
	// streamWindow is how much podd buffers for a connection that nobody reads from.
	streamWindow = 256 << 10
)

// Targets are what a stream can be opened to. Each takes the connection over.
type Targets struct {
	// API is podd's server.
	API func(*net.UnixConn)
	// Egress accepts connections of the egress process. It is nil without egress.
	Egress func(*net.UnixConn)
	// Dial replaces both where podd is another process. It returns nil for an unknown target.
	Dial func(target string) (*net.UnixConn, error)
}

// Serve answers one byte stream until it ends, and closes it.
func (t Targets) Serve(conn net.Conn) {
	server := &http2.Server{
		MaxConcurrentStreams:     maxStreams,
		MaxUploadBufferPerStream: streamWindow,
		// As large as all streams together: a stream that nobody reads never blocks the others.
		MaxUploadBufferPerConnection: maxStreams * streamWindow,
	}
	server.ServeConn(conn, &http2.ServeConnOpts{Handler: t, BaseConfig: &http.Server{ErrorLog: log.Default()}})
	conn.Close()
}

// ServeHTTP serves one stream.
func (t Targets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "use CONNECT to open a stream", http.StatusMethodNotAllowed)
		return
	}
	ours, err := t.connect(r.Host)
	if err != nil {
		http.Error(w, "the sandbox cannot open another connection", http.StatusServiceUnavailable)
		return
	}
	if ours == nil {
		http.Error(w, "unknown target: api and egress exist", http.StatusNotFound)
		return
	}
	defer ours.Close()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	// It ends when the handler returns, which closes the body, or before.
	go upload(ours, r)
	download(w, ours)
}

// connect returns our end of a connection to a target, or nil if there is no such target.
func (t Targets) connect(target string) (*net.UnixConn, error) {
	if t.Dial != nil {
		return t.Dial(target)
	}
	take := map[string]func(*net.UnixConn){"api": t.API, "egress": t.Egress}[target]
	if take == nil {
		return nil, nil
	}
	ours, theirs, err := Pair()
	if err == nil {
		take(theirs)
	}
	return ours, err
}
