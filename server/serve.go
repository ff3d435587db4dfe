package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a client may take its time with, so that slow ones do not pile up.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second // of the whole request
	writeTimeout  = 15 * time.Second // of the answer, from when the request's header was read
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
)

// Serve answers the requests that the listener accepts until ctx ends. It then shuts down: /readyz says 503, and after
// ShutdownDelay the listener is closed and running requests are given DrainTime. It returns nil if all of them were
// answered, and says otherwise what went wrong. It closes the listener in any case. A Server serves once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan error, 1)
	wg.Go(func() { ended <- hs.Serve(l) })
	probing, stop := context.WithCancel(ctx)
	defer stop()
	if s.watched != nil {
		wg.Go(func() { _ = s.probe(probing) }) // so that the log says at the start if the store does not answer
	}

	select {
	case err := <-ended:
		return fmt.Errorf("server: the listener failed: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("shutting down", slog.Duration("delay", s.cfg.ShutdownDelay), slog.Duration("drain", s.cfg.DrainTime))
	if err := s.lingered(ended); err != nil {
		return err
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTime)
	defer cancel()
	err := hs.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		_ = hs.Close()
		return fmt.Errorf("server: requests still ran after %v and were cut off", s.cfg.DrainTime)
	}
	return err
}

// lingered goes on serving for ShutdownDelay.
func (s *Server) lingered(ended <-chan error) error {
	if s.cfg.ShutdownDelay == 0 {
		return nil
	}
	timer := time.NewTimer(s.cfg.ShutdownDelay)
	defer timer.Stop()
	select {
	case err := <-ended:
		return fmt.Errorf("server: the listener failed: %w", err)
	case <-timer.C:
		return nil
	}
}
