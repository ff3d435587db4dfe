package server

import "github.com/prometheus/client_golang/prometheus"

// LeaseStats tells what became of the tokens that the store took ahead for leases. The numbers only grow.
type LeaseStats struct {
	Taken  int64 // tokens taken ahead
	Spent  int64 // of these, tokens that takes have spent
	Lapsed int64 // of these, tokens that have lapsed unspent
	Takes  int64 // takes decided from leases alone
}

// leases adds what a store tells of its leases.
func (m *metrics) leases(stats func() LeaseStats) {
	for _, c := range []struct {
		name, help string
		value      func(LeaseStats) int64
	}{
		{"tidegate_lease_taken_tokens_total", "Tokens that were taken ahead for leases.", func(s LeaseStats) int64 { return s.Taken }},
		{"tidegate_lease_spent_tokens_total", "Tokens of leases that takes have spent.", func(s LeaseStats) int64 { return s.Spent }},
		{"tidegate_lease_lapsed_tokens_total", "Tokens of leases that have lapsed unspent.", func(s LeaseStats) int64 { return s.Lapsed }},
		{"tidegate_lease_takes_total", "Takes that were decided from leases alone.", func(s LeaseStats) int64 { return s.Takes }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help},
			func() float64 { return float64(c.value(stats())) }))
	}
}
