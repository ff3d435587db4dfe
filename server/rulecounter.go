package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// ruleCounter counts what takes came to rule by rule, where tidegate_decisions_total has one decision for each take: a rule in
// shadow, and one that had room while another refused, show here alone. It is the engine's counter, and tells the one of the
// program besides.
type ruleCounter struct {
	decisions *decisionSeries
	next      rules.Counter
}

var _ rules.Counter = (*ruleCounter)(nil)

// newRuleCounter returns a counter of the registry that tells next too, unless that is nil.
func newRuleCounter(r prometheus.Registerer, next rules.Counter) *ruleCounter {
	return &ruleCounter{
		next: next,
		decisions: newDecisionSeries(r, prometheus.CounterOpts{
			Name: "tidegate_rule_decisions_total",
			Help: "What takes came to for each rule that they matched, by rule, outcome (allowed, denied, or shadow_denied where the rule is in shadow) and source. Peeks and refunds are not counted.",
		}, ruleOutcomes[:]...),
	}
}

// ruleOutcomes are what a take came to for one rule, as /metrics says it.
var ruleOutcomes = [...]string{rules.Allowed: "allowed", rules.Refused: "denied", rules.ShadowRefused: "shadow_denied"}

// Count implements [rules.Counter].
func (c *ruleCounter) Count(rule string, outcome rules.Outcome, source tidegate.Source) {
	c.decisions.inc(rule, int(outcome), source)
	if c.next != nil {
		c.next.Count(rule, outcome, source)
	}
}

// counted is the config of the engine with what /metrics counts by.
func (s *Server) counted(cfg *rules.Config) *rules.Config {
	var c rules.Config
	if cfg != nil {
		c = *cfg
	}
	s.rules = newRuleCounter(s.metrics.registry, c.Counter)
	c.Counter = s.rules
	return &c
}

// CountRule counts what a take of another face came to for one rule.
func (s *Server) CountRule(rule string, d *tidegate.Decision, shadow bool) {
	outcome := rules.Allowed
	switch {
	case d.Allowed:
	case shadow:
		outcome = rules.ShadowRefused
	default:
		outcome = rules.Refused
	}
	s.rules.Count(rule, outcome, d.Source)
}
