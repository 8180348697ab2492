package guest

import (
	"bufio"
	"encoding/hex"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
)

// envd's own port. Outside, the server forwards it to podd's socket; inside, programs written for E2B use it.
const localPort = 49983

const (
	maxLocal       = 32
	maxLocalHeader = 16 << 10
	localTimeout   = 10 * time.Second
	maxSocketTable = 16 << 20
)

// serveLocal answers programs inside at localhost:49983, with the part of envd that E2B's own programs use.
//
// SECURITY: FS-32. None of podd's calls is available here. A program learns that the sandbox runs, its id,
// and the variables that it was started with. No token is needed, because a sandbox never has one.
func (s *Server) serveLocal() {
	server := &http.Server{
		Handler: http.HandlerFunc(s.answerLocal), ReadTimeout: localTimeout, WriteTimeout: localTimeout,
		IdleTimeout: localTimeout, MaxHeaderBytes: maxLocalHeader, ErrorLog: log.New(io.Discard, "", 0),
	}
	places := make(chan struct{}, maxLocal)
	for _, host := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(localPort)))
		if err != nil {
			log.Printf("nothing answers at %s, port %d: %v", host, localPort, err)
			continue
		}
		go server.Serve(&boundedListener{listener, places})
	}
}

func (s *Server) answerLocal(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /health":
		s.health(w, r)
	case "GET /envs":
		if !s.isOwnPeer(r) {
			connect.WriteError(w, connect.Errorf(connect.PermissionDenied, "only the sandbox's user and root may read the variables"))
			return
		}
		s.envs(w, r)
	case "GET /me":
		env, _, _, _ := s.settings.view()
		connect.WriteJSON(w, http.StatusOK, map[string]string{"sandboxID": env["E2B_SANDBOX_ID"]})
	default:
		e := connect.Errorf(connect.Unimplemented, "%s %.200q is not served inside the sandbox", r.Method, r.URL.Path)
		e.Status = http.StatusNotFound
		connect.WriteError(w, e)
	}
}

// isOwnPeer reports whether the peer has the variables already: it is root, or the user that commands run as.
func (s *Server) isOwnPeer(r *http.Request) bool {
	uid, err := peerUID(r)
	if err != nil {
		return false
	}
	_, name, _, _ := s.settings.view()
	user, err := account.Lookup(name)
	return uid == 0 || err == nil && uid == user.UID
}

// peerUID returns the user that opened the other end of a connection from inside, by the kernel's table of
// sockets.
func peerUID(r *http.Request) (int, error) {
	here, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return 0, os.ErrInvalid
	}
	ours, err := netip.ParseAddrPort(here.String())
	if err != nil {
		return 0, err
	}
	theirs, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return 0, err
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if uid, err := findSocket(table, theirs, ours); err == nil {
			return uid, nil
		}
	}
	return 0, os.ErrNotExist
}

func findSocket(table string, from, to netip.AddrPort) (int, error) {
	file, err := os.Open(table)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxSocketTable))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 7 && isAddress(fields[1], from) && isAddress(fields[2], to) {
			return strconv.Atoi(fields[7])
		}
	}
	return 0, os.ErrNotExist
}

// isAddress compares an address with the kernel's notation: words of four bytes in the machine's byte order,
// and the port.
func isAddress(text string, want netip.AddrPort) bool {
	host, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != want.Port() {
		return false
	}
	bytes, err := hex.DecodeString(host)
	if err != nil || len(bytes)%4 != 0 {
		return false
	}
	for i := 0; i < len(bytes); i += 4 {
		bytes[i], bytes[i+1], bytes[i+2], bytes[i+3] = bytes[i+3], bytes[i+2], bytes[i+1], bytes[i]
	}
	address, ok := netip.AddrFromSlice(bytes)
	return ok && address.Unmap() == want.Addr().Unmap()
}

// boundedListener closes connections that arrive while all places are taken.
type boundedListener struct {
	net.Listener
	places chan struct{}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.places <- struct{}{}:
			return &placedConn{Conn: conn, places: l.places}, nil
		default:
			conn.Close()
		}
	}
}

// placedConn frees its place when it closes.
type placedConn struct {
	net.Conn
	places chan struct{}
	closed atomic.Bool
}

func (c *placedConn) Close() error {
	if !c.closed.Swap(true) {
		<-c.places
	}
	return c.Conn.Close()
}
