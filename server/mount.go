package server

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate"
)

// Store returns the store as the server uses it, measured and watched, for other faces on the same buckets.
func (s *Server) Store() tidegate.Store { return s.store }

// Mount adds a path for one method to the API, bounded as takes are. Call it before the server answers.
func (s *Server) Mount(method, path string, h http.Handler) {
	s.mux.Handle(method+" "+path, s.bounded(h))
	s.mux.Handle(path, wrongMethod(method))
}

// Register adds a collector to /metrics.
func (s *Server) Register(c prometheus.Collector) error {
	if err := s.metrics.registry.Register(c); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Decided counts a decision that another face made, by a rule that the server does not know.
func (s *Server) Decided(d *tidegate.Decision) {
	s.decided(d)
	s.traffic.other(d.Rule, d.Allowed)
}

// Authorized reports whether a request has the token; never where there is none.
func (s *Server) Authorized(r *http.Request) bool { return s.authorize(r, "this") == nil }

// ReadyWhen makes /readyz ask too; a problem that is not empty is its answer. Call it before the server answers.
func (s *Server) ReadyWhen(problem func() string) { s.unready = append(s.unready, problem) }
