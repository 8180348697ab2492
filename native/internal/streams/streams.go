// Package streams carries podd's connections over one byte stream. The stream speaks HTTP/2, and each of its CONNECT
// streams is one connection (spec/guest-protocol.md, "Transports").
package streams

import (
	"log"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

const (
	// maxStreams leaves room for as many connections as podd's server takes, and as many of the way out.
	maxStreams = 2048
	// streamWindow is how much podd holds for a connection that nobody reads from.
	streamWindow = 256 << 10
)

// Doors are what a stream can be opened to. Each takes the connection over.
type Doors struct {
	// API is podd's server.
	API func(*net.UnixConn)
	// Egress is the way out. It is nil where there is none.
	Egress func(*net.UnixConn)
}

// Serve answers one byte stream until it ends, and closes it.
func (d Doors) Serve(conn net.Conn) {
	server := &http2.Server{
		MaxConcurrentStreams:     maxStreams,
		MaxUploadBufferPerStream: streamWindow,
		// As large as all streams together: one that nobody reads from never stops the others.
		MaxUploadBufferPerConnection: maxStreams * streamWindow,
	}
	server.ServeConn(conn, &http2.ServeConnOpts{Handler: d, BaseConfig: &http.Server{ErrorLog: log.Default()}})
	conn.Close()
}

// ServeHTTP carries one connection.
func (d Doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "a stream is opened by CONNECT", http.StatusMethodNotAllowed)
		return
	}
	take := map[string]func(*net.UnixConn){"api": d.API, "egress": d.Egress}[r.Host]
	if take == nil {
		http.Error(w, "there is no such door", http.StatusNotFound)
		return
	}
	ours, theirs, err := pair()
	if err != nil {
		http.Error(w, "the sandbox has no room for another connection", http.StatusServiceUnavailable)
		return
	}
	defer ours.Close()
	take(theirs)
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	// It ends with the handler, which breaks the body, or before.
	go upload(ours, r)
	download(w, ours)
}
