package server

import (
	"errors"
	"net/http"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/source"
)

// AwaitRules makes the rules that the server began with count for nothing until [Server.LiveRules]' source has delivered good ones:
// until then takes are answered 503, and /readyz says what is waited for, while /healthz says that the process runs, and the rules can
// be changed where programs may. Call it after LiveRules, and before that runs.
func (s *Server) AwaitRules() {
	s.awaiting.Store(true)
	s.ReadyWhen(s.awaited)
}

// awaited says what is waited for; nothing where there are rules.
func (s *Server) awaited() string {
	if !s.awaiting.Load() {
		return ""
	}
	name, _, _ := s.followed.told()
	if name == "store" {
		name = "the store"
	}
	const none = "no rules yet: waiting for "
	l := s.followed.follower()
	if l == nil {
		return none + name
	}
	err := l.Status().Problem
	es, bad := errors.AsType[rules.Errors](err)
	switch {
	case err == nil:
		return none + name
	case bad:
		return none + "good ones, since what " + name + " has is bad: " + firstLine(es)
	case errors.Is(err, source.ErrNone):
		return none + "some to be pushed to " + name
	}
	return none + name + " to answer: " + cause(err).Error()
}

// ruled answers 503 as long as there are no rules.
func (s *Server) ruled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.awaiting.Load() {
			if problem := s.awaited(); problem != "" { // else they came just now
				writeError(w, unavailable(problem))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// set returns the rules in place, as the API tells them: none while they are awaited.
func (s *Server) set() *rules.Set {
	if s.awaiting.Load() {
		return s.engine.Set().Filter(func(*rules.Rule) bool { return false })
	}
	return s.engine.Set()
}
