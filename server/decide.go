package server

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/guard"
	"github.com/tidegate-go/tidegate/internal/hotkeys"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/rules"
)

// decide makes the engine, and what sees its takes: the breakers, the counters and the hot keys.
func (s *Server) decide(store tidegate.Store, set *rules.Set) error {
	cfg := *s.counted(s.cfg.Engine)
	var err error
	if s.hot, err = hotkeys.New(nil); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	guarded := &guard.Config{Changed: s.breakerChanged, Tracker: trackers{s.hot, cfg.Tracker}}
	if shared, ok := store.(*resilience.Store); ok {
		guarded.Share = shared.Share
		s.share = shared.Share
	}
	s.guard = guard.New(guarded)
	cfg.Tracker = s.guard
	if cfg.Guard == nil {
		cfg.Guard = s.guard
		if err := s.guard.Use(set); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	s.traffic.use(set)
	cfg.Counter = counters{s.traffic, cfg.Counter}
	s.engine, err = rules.New(s.store, set, &cfg)
	if err != nil {
		return err
	}
	s.metrics.registry.MustRegister(s.audits.trips, &breakerStates{s.guard})
	return nil
}

// Swap decides all takes from now on by another set, as [rules.Engine.Swap] does, and makes the breakers those of the set.
func (s *Server) Swap(set *rules.Set, at time.Time) []rules.Change {
	if set == nil {
		return nil
	}
	s.swapping.Lock()
	defer s.swapping.Unlock()
	if s.cfg.Engine == nil || s.cfg.Engine.Guard == nil {
		if err := s.guard.Use(set); err != nil { // no set that was parsed gives one
			s.log.Error("the breakers stay as they were", slog.Any("error", err))
		}
	}
	s.traffic.use(set)
	return s.engine.Swap(set, at)
}

// trackers are told of the same takes; the second may be nil.
type trackers [2]rules.Tracker

// Observe implements [rules.Tracker].
func (t trackers) Observe(rule, key string, cost int64, allowed bool) {
	t[0].Observe(rule, key, cost, allowed)
	if t[1] != nil {
		t[1].Observe(rule, key, cost, allowed)
	}
}

// counters are told of the same takes; the second may be nil.
type counters [2]rules.Counter

// Count implements [rules.Counter].
func (c counters) Count(rule string, outcome rules.Outcome, source tidegate.Source) {
	c[0].Count(rule, outcome, source)
	if c[1] != nil {
		c[1].Count(rule, outcome, source)
	}
}

// decided counts the answer to a take.
func (s *Server) decided(d *tidegate.Decision) {
	s.metrics.decision(d)
	s.traffic.whole(d.Allowed)
}
