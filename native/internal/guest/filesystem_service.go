package guest

import (
	"context"
	"net/http"
	"time"

	"agentpod/native/internal/connect"
	"agentpod/native/internal/files"
)

func (s *Server) addFilesystemService() {
	const service = "POST /filesystem.Filesystem/"
	s.routes[service+"Stat"] = route{handle: unary(s.stat)}
	s.routes[service+"ListDir"] = route{handle: unary(s.listDir)}
	s.routes[service+"MakeDir"] = route{handle: unary(s.makeDir)}
	s.routes[service+"Move"] = route{handle: unary(s.move)}
	s.routes[service+"Remove"] = route{handle: unary(s.remove)}
	s.routes[service+"WatchDir"] = route{handle: s.watchDir}
	s.routes[service+"CreateWatcher"] = route{handle: unary(s.createWatcher)}
	s.routes[service+"GetWatcherEvents"] = route{handle: unary(s.watcherEvents)}
	s.routes[service+"RemoveWatcher"] = route{handle: unary(s.removeWatcher)}
}

type pathRequest struct {
	Path  string `json:"path"`
	Depth uint32 `json:"depth"`
}

type entryAnswer struct {
	Entry files.Entry `json:"entry"`
}

// fileRules is a header that the server sets to "e2b" on calls of E2B's SDKs. The server does not pass on a
// client's own.
const fileRules = "Agentpod-File-Rules"

// actorOf returns the user for whom a file call acts.
//
// SECURITY: FS-30. A call can do more than its user only if the environment says sudo: then the user's
// programs could do the same.
func (s *Server) actorOf(r *http.Request) (files.Actor, error) {
	user, err := s.settings.userOf(r)
	_, _, _, sudo := s.settings.view()
	return files.Actor{User: user, Root: sudo && r.Header.Get(fileRules) == "e2b"}, err
}

// resolve finds the user for whom a call acts and makes the path absolute.
func (s *Server) resolve(r *http.Request, name string) (files.Actor, string, error) {
	if name == "" {
		return files.Actor{}, "", connect.Errorf(connect.InvalidArgument, "path is missing")
	}
	actor, err := s.actorOf(r)
	if err != nil {
		return actor, "", err
	}
	_, _, workdir, _ := s.settings.view()
	full, err := actor.User.Resolve(name, workdir)
	return actor, full, err
}

func (s *Server) stat(r *http.Request, in *pathRequest) (answer entryAnswer, err error) {
	actor, full, err := s.resolve(r, in.Path)
	if err == nil {
		answer.Entry, err = actor.Stat(full)
	}
	return answer, err
}

func (s *Server) listDir(r *http.Request, in *pathRequest) (any, error) {
	var answer struct {
		Entries []files.Entry `json:"entries,omitempty"`
	}
	actor, full, err := s.resolve(r, in.Path)
	if err == nil {
		answer.Entries, err = actor.List(full, in.Depth)
	}
	return answer, err
}

func (s *Server) makeDir(r *http.Request, in *pathRequest) (answer entryAnswer, err error) {
	actor, full, err := s.resolve(r, in.Path)
	if err == nil {
		answer.Entry, err = actor.MakeDir(full)
	}
	return answer, err
}

func (s *Server) move(r *http.Request, in *struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}) (answer entryAnswer, err error) {
	_, destination, err := s.resolve(r, in.Destination)
	if err != nil {
		return answer, err
	}
	actor, source, err := s.resolve(r, in.Source)
	if err == nil {
		answer.Entry, err = actor.Move(source, destination)
	}
	return answer, err
}

func (s *Server) remove(r *http.Request, in *pathRequest) (empty, error) {
	actor, full, err := s.resolve(r, in.Path)
	if err == nil {
		err = actor.Remove(full)
	}
	return empty{}, err
}

type watchRequest struct {
	Path         string `json:"path"`
	Recursive    bool   `json:"recursive"`
	IncludeEntry bool   `json:"includeEntry"`
}

func (in watchRequest) options() files.WatchOptions {
	return files.WatchOptions{Recursive: in.Recursive, IncludeEntry: in.IncludeEntry}
}

// watchDir streams changes until the client disconnects or its timeout expires.
func (s *Server) watchDir(w http.ResponseWriter, r *http.Request) {
	var in watchRequest
	ctx, cancel, err := openStream(r, &in)
	if err != nil && connect.AsError(err).Status != 0 {
		connect.WriteError(w, err)
		return
	}
	defer cancel()
	out := connect.NewOutbound(r.Context(), w)
	var watch *files.Watch
	if err == nil {
		var actor files.Actor
		var full string
		if actor, full, err = s.resolve(r, in.Path); err == nil {
			watch, err = actor.Watch(full, in.options())
		}
	}
	if err != nil {
		out.Close(err)
		return
	}
	defer watch.Close()
	if out.Send(map[string]any{"start": empty{}}) == nil {
		sendEvents(ctx, out, watch, keepaliveOf(r))
	}
}

type watchBatch struct {
	events []files.Event
	err    error
}

func sendEvents(ctx context.Context, out *connect.Outbound, watch *files.Watch, keepalive time.Duration) {
	batches := make(chan watchBatch)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			events, err := watch.Next()
			select {
			case batches <- watchBatch{events, err}:
			case <-over:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	ping := time.NewTicker(keepalive)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			out.Close(timeoutError(ctx))
			return
		case <-ping.C:
			err = out.Send(map[string]any{"keepalive": empty{}})
		case batch := <-batches:
			if batch.err != nil {
				out.Close(batch.err)
				return
			}
			for _, event := range batch.events {
				if err = out.Send(map[string]any{"filesystem": event}); err != nil {
					break
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *Server) createWatcher(r *http.Request, in *watchRequest) (answer struct {
	WatcherID string `json:"watcherId"`
}, err error) {
	actor, full, err := s.resolve(r, in.Path)
	if err == nil {
		answer.WatcherID, err = s.watchers.Create(actor, full, in.options())
	}
	return answer, err
}

type watcherRequest struct {
	WatcherID string `json:"watcherId"`
}

func (s *Server) watcherEvents(_ *http.Request, in *watcherRequest) (answer struct {
	Events []files.Event `json:"events,omitempty"`
}, err error) {
	answer.Events, err = s.watchers.Events(in.WatcherID)
	return answer, err
}

func (s *Server) removeWatcher(_ *http.Request, in *watcherRequest) (empty, error) {
	return empty{}, s.watchers.Remove(in.WatcherID)
}
