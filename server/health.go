package server

import (
	"context"
	"net/http"
	"time"
)

// probeTimeout is how long the store may take to answer a probe.
const probeTimeout = time.Second

// healthz answers that the process runs.
func (s *Server) healthz(http.ResponseWriter, *http.Request) (reply, error) {
	return done("healthy"), nil
}

// readyz answers whether takes should be sent here.
func (s *Server) readyz(_ http.ResponseWriter, r *http.Request) (reply, error) {
	if s.draining.Load() {
		return reply{}, unavailable("the server is shutting down")
	}
	for _, problem := range s.unready {
		if text := problem(); text != "" {
			return reply{}, unavailable(text)
		}
	}
	if s.status != nil {
		return s.guardedReady()
	}
	if err := s.probe(r.Context()); err != nil {
		return reply{}, unavailable("the store does not answer: " + cause(err).Error())
	}
	return done("ready"), nil
}

// probe asks the store for its clock, which costs it nothing.
func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := s.store.Now(ctx)
	return err
}
