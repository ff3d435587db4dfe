package server

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/rules/live"
	"github.com/tidegate-go/tidegate/rules/source"
)

// LiveRules returns what keeps the server's rules as they are at the source, which the caller runs; it logs to the server's
// logger, and /metrics tells of it. A server has one.
func (s *Server) LiveRules(src source.Source) (*live.Live, error) {
	changes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_rules_changes_total",
		Help: "Rules that their source delivered, or failed to, by source and outcome: applied, unchanged, invalid or failed. Where not applied, the rules before stay.",
	}, []string{"source", "outcome"})
	for _, o := range []live.Outcome{live.Applied, live.Unchanged, live.Invalid, live.Failed} {
		changes.WithLabelValues(src.Name(), string(o)) // so that an alert sees the first one
	}
	l, err := live.New(swapping{s}, src, &live.Config{
		Logger: s.log,
		Audit:  s.audits.rules,
		Count:  func(source string, outcome live.Outcome) { changes.WithLabelValues(source, string(outcome)).Inc() },
	})
	if err != nil {
		return nil, err
	}
	version := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_rules_version_timestamp_seconds",
		Help: "When the rules that are in place were changed at their source; the same in all replicas that have the same rules.",
	}, func() float64 { return float64(l.Status().Version) / 1e6 })
	stale := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_rules_stale",
		Help: "1 while what is at the source of the rules is not in place, because it is bad or cannot be had; else 0.",
	}, func() float64 {
		if l.Status().Problem != nil {
			return 1
		}
		return 0
	})
	for _, c := range []prometheus.Collector{changes, version, stale} {
		if err := s.metrics.registry.Register(c); err != nil {
			return nil, fmt.Errorf("server: the rules have a source already: %w", err)
		}
	}
	s.followed.follow(l, src)
	return l, nil
}

// swapping is the server as what keeps its rules sees it.
type swapping struct{ s *Server }

// Set returns the rules in place.
func (w swapping) Set() *rules.Set { return w.s.set() }

// Swap puts others in their place.
func (w swapping) Swap(set *rules.Set, at time.Time) []rules.Change {
	changes := w.s.Swap(set, at)
	w.s.awaiting.Store(false)
	return changes
}
