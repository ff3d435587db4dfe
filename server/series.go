package server

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate"
)

// maxOutcomes is how many outcomes a [decisionSeries] may tell apart.
const maxOutcomes = 3

// decisionSeries counts under the labels rule, outcome and source. It keeps the counters that the registry's vector has
// once made, so that to count is to look up the rule: the vector hashes all labels of each count. A series begins with its
// first count, and there is none that ends: what is kept are as many counters as /metrics shows.
type decisionSeries struct {
	vec      *prometheus.CounterVec
	outcomes []string // at most maxOutcomes
	kept     sync.Map // of rules, to *ruleCounters
}

// ruleCounters are the counters of one rule, nil until there is something to count.
type ruleCounters [maxOutcomes][tidegate.SourceShadow + 1]atomic.Pointer[prometheus.Counter]

// newDecisionSeries returns one of the registry, which has the outcomes by their place.
func newDecisionSeries(r prometheus.Registerer, opts prometheus.CounterOpts, outcomes ...string) *decisionSeries {
	s := &decisionSeries{vec: prometheus.NewCounterVec(opts, []string{"rule", "outcome", "source"}), outcomes: outcomes}
	r.MustRegister(s.vec)
	return s
}

// inc counts one decision.
func (s *decisionSeries) inc(rule string, outcome int, source tidegate.Source) {
	if source > tidegate.SourceShadow { // of a store that has sources of its own
		s.vec.WithLabelValues(rule, s.outcomes[outcome], source.String()).Inc()
		return
	}
	kept, ok := s.kept.Load(rule)
	if !ok {
		kept, _ = s.kept.LoadOrStore(rule, new(ruleCounters))
	}
	one := &kept.(*ruleCounters)[outcome][source]
	c := one.Load()
	if c == nil {
		made := s.vec.WithLabelValues(rule, s.outcomes[outcome], source.String())
		c = &made
		one.Store(c)
	}
	(*c).Inc()
}
