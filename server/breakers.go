package server

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate/downstream"
	"github.com/tidegate-go/tidegate/guard"
	"github.com/tidegate-go/tidegate/rules/live"
)

// breakerSource is the source of changes of breakers in the audit.
const breakerSource = "breaker"

// breakerChanged takes note that a breaker has changed its state: a line of the log, one of the audit, and a counter.
func (s *Server) breakerChanged(rule string, c downstream.Change) {
	s.audits.trips.WithLabelValues(rule, c.To.String()).Inc()
	s.audits.breakers.Record(live.Change{
		At: time.Now(), Source: breakerSource, Rule: rule, Before: c.From.String(), After: c.String(),
	})
	level := s.log.Info
	if c.To == downstream.Open {
		level = s.log.Warn
	}
	level("a breaker has changed", slog.String("rule", rule), slog.String("from", c.From.String()), slog.String("to", c.To.String()),
		slog.Duration("lasted", c.Lasted), slog.String("cause", c.Cause.String()), slog.Int64("bad", c.Bad), slog.Int64("calls", c.Calls))
}

var breakerStateDesc = prometheus.NewDesc("tidegate_breaker_state",
	"1 for the state of the breaker of the rule that is: closed, open, half-open or ramping.", []string{"rule", "state"}, nil)

var breakerStateNames = [...]downstream.State{downstream.Closed, downstream.Open, downstream.HalfOpen, downstream.Ramping}

// breakerStates tells /metrics how the breakers are, those of the rules that are in place alone.
type breakerStates struct{ guard *guard.Guard }

// Describe implements [prometheus.Collector].
func (*breakerStates) Describe(descs chan<- *prometheus.Desc) { descs <- breakerStateDesc }

// Collect implements [prometheus.Collector].
func (b *breakerStates) Collect(metrics chan<- prometheus.Metric) {
	for _, st := range b.guard.Status() {
		for _, state := range breakerStateNames {
			value := 0.0
			if st.State == state {
				value = 1
			}
			metrics <- prometheus.MustNewConstMetric(breakerStateDesc, prometheus.GaugeValue, value, st.Rule, state.String())
		}
	}
}
