package guest

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/peer"
)

const (
	tunnelProtocol = "agentpod-tunnel"
	dialTimeout    = 5 * time.Second
)

// tunnel connects the client to a port inside. It dials before it answers 101, so that a closed port has its
// own status.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), tunnelProtocol) {
		e := connect.Errorf(connect.InvalidArgument, "the tunnel needs Upgrade: %s", tunnelProtocol)
		e.Status = http.StatusUpgradeRequired
		connect.WriteError(w, e)
		return
	}
	port, err := strconv.ParseUint(r.URL.Query().Get("port"), 10, 16)
	if err != nil || port == 0 {
		connect.WriteError(w, connect.Errorf(connect.InvalidArgument, "port= is not a valid port"))
		return
	}
	inside, err := s.dialInside(int(port))
	if err != nil {
		e := connect.Errorf(connect.Unavailable, "port %d is not open", port)
		e.Status = http.StatusBadGateway
		connect.WriteError(w, e)
		return
	}
	defer inside.Close()
	outside, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer outside.Close()
	_, err = io.WriteString(outside, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+tunnelProtocol+"\r\n\r\n")
	if err != nil {
		return
	}
	// Data that the client sent after its request is in net/http's buffer.
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if _, err := inside.Write(early); err != nil {
		return
	}
	join(outside.(*connection).UnixConn, inside.(*net.TCPConn))
}

func (s *Server) dialInside(port int) (net.Conn, error) {
	// SECURITY: CP-09. This port is for connections that leave the sandbox; a client outside must not reach
	// it.
	if port == peer.EgressPort || port == s.EgressPort {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dialTimeout)
	if err != nil {
		conn, err = net.DialTimeout("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)), dialTimeout)
	}
	return conn, err
}

// join copies both ways. It passes the end of one direction on, and the other continues until its own end.
// The concrete types let the runtime splice, so the bytes stay in the kernel.
func join(outside *net.UnixConn, inside *net.TCPConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(outside, inside)
		outside.CloseWrite()
	}()
	io.Copy(inside, outside)
	inside.CloseWrite()
	<-done
}
