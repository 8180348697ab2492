package guest

import (
	"net/http"
	"strings"
	"sync"

	"agentpod/native/internal/account"
	"agentpod/native/internal/connect"
	"agentpod/native/internal/process"
	"agentpod/native/internal/trust"
)

// settings is what PUT /agentpod/init has set so far.
type settings struct {
	mu      sync.Mutex
	env     map[string]string
	user    string
	workdir string
	sudo    bool
}

type initRequest struct {
	Env            *map[string]string `json:"env"`
	DefaultUser    *string            `json:"defaultUser"`
	DefaultWorkdir *string            `json:"defaultWorkdir"`
	Sudo           *bool              `json:"sudo"`
	Lease          *Terms             `json:"lease"`
	Trust          *trust.Anchors     `json:"trust"`
	Envd           bool               `json:"envd"`
}

// apply replaces what the request names and keeps the rest.
func (s *settings) apply(request initRequest) error {
	if request.Env != nil {
		if err := process.CheckEnv(*request.Env); err != nil {
			return err
		}
	}
	if dir := request.DefaultWorkdir; dir != nil && *dir != "" && !strings.HasPrefix(*dir, "/") {
		return connect.Errorf(connect.InvalidArgument, "defaultWorkdir %.200q is not absolute", *dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.Env != nil {
		s.env = *request.Env
	}
	if request.DefaultUser != nil {
		s.user = *request.DefaultUser
	}
	if request.DefaultWorkdir != nil {
		s.workdir = *request.DefaultWorkdir
	}
	if request.Sudo != nil {
		s.sudo = *request.Sudo
	}
	return nil
}

// view is a copy that can be read without the lock; the map is replaced, never changed.
func (s *settings) view() (env map[string]string, user, workdir string, sudo bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.env, s.user, s.workdir, s.sudo
}

// userOf is the user a request names: by Basic authorization, by username=, or by default.
func (s *settings) userOf(r *http.Request) (*account.User, error) {
	_, name, _, _ := s.view()
	if r.Header.Get("Authorization") != "" {
		given, rest, ok := r.BasicAuth()
		if !ok {
			return nil, connect.Errorf(connect.Unauthenticated, "the authorization must be Basic")
		}
		name = given
		// A user of the form UID:GID contains the colon that separates the password, which envd ignores.
		if group := strings.TrimSuffix(rest, ":"); group != "" && strings.Trim(given+group, "0123456789") == "" {
			name = given + ":" + group
		}
	} else if given := r.URL.Query().Get("username"); given != "" {
		name = given
	}
	return account.Lookup(name)
}

// pathOf is the path= of a request, resolved for its user.
func (s *settings) pathOf(r *http.Request) (*account.User, string, error) {
	user, err := s.userOf(r)
	if err != nil {
		return nil, "", err
	}
	_, _, workdir, _ := s.view()
	path, err := user.Resolve(r.URL.Query().Get("path"), workdir)
	return user, path, err
}
