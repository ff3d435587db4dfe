package server

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate/resilience"
)

// StoreMetrics is what /metrics tells of a store that outlives the failure of a shared one. Its Hooks go to
// [resilience.Config], and itself to [Config]; create it with [NewStoreMetrics].
type StoreMetrics struct {
	calls     *callMetrics
	changes   *prometheus.CounterVec
	decisions *prometheus.CounterVec
	shares    *prometheus.GaugeVec
	repaid    *prometheus.CounterVec
	unpaid    *prometheus.CounterVec

	mu       sync.Mutex
	fallback time.Duration // in all, without the present one
	told     float64       // s of fallback, by the last scrape
}

// NewStoreMetrics returns metrics of a store that is yet to be made.
func NewStoreMetrics() *StoreMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &StoreMetrics{
		calls:   newCallMetrics(),
		changes: counter("tidegate_store_state_changes_total", "Changes of who decides, by the state that began.", "state"),
		decisions: counter("tidegate_fallback_decisions_total",
			"Charges that were decided without the shared store, by rule and outcome (allowed or denied).", "rule", "outcome"),
		shares: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tidegate_fallback_share",
			Help: "Part of a rule's limit that this replica keeps to without the shared store; all replicas' add up to at most 1.",
		}, []string{"rule"}),
		repaid: counter("tidegate_fallback_repaid_tokens_total",
			"Tokens that passed without the shared store and that it was charged afterwards.", "rule"),
		unpaid: counter("tidegate_fallback_unpaid_tokens_total",
			"Tokens that passed without the shared store and for which it had no room afterwards.", "rule"),
	}
	for _, s := range states {
		m.changes.WithLabelValues(s.String()) // so that each series begins at 0
	}
	return m
}

var states = [...]resilience.State{resilience.Shared, resilience.Fallback, resilience.Returning}

// Hooks returns what the store is to call.
func (m *StoreMetrics) Hooks() resilience.Hooks {
	return resilience.Hooks{
		State: m.changed,
		Call:  func(_ string, took time.Duration, kind resilience.ErrorKind) { m.calls.saw(took, kind) },
		Fallback: func(rule string, allowed bool) {
			m.decisions.WithLabelValues(rule, outcome(allowed)).Inc()
		},
		Share: func(rule string, share float64) { m.shares.WithLabelValues(rule).Set(share) },
		Repaid: func(rule string, charged, left int64) {
			m.repaid.WithLabelValues(rule).Add(float64(charged))
			m.unpaid.WithLabelValues(rule).Add(float64(left))
		},
	}
}

func (m *StoreMetrics) changed(c resilience.StateChange) {
	m.changes.WithLabelValues(c.To.String()).Inc()
	if c.From == resilience.Fallback {
		m.mu.Lock()
		m.fallback += c.Lasted
		m.mu.Unlock()
	}
}

// seconds is how long the fallback has decided in all, the present one included. Whoever scrapes between a change and the
// call of the hook is told what was told before: a counter never falls.
func (m *StoreMetrics) seconds(st resilience.Status) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.fallback
	if st.State == resilience.Fallback {
		all += time.Since(st.Since)
	}
	m.told = max(m.told, all.Seconds())
	return m.told
}

// outages adds what a store of package resilience tells of itself: its status, and what its hooks have told, if they are set.
func (m *metrics) outages(told *StoreMetrics, status func() resilience.Status) {
	gauge := func(name, help string, labels prometheus.Labels, value func(resilience.Status) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return value(status()) }))
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	for _, s := range states {
		gauge("tidegate_store_state", "1 for the state that is: store, fallback, or returning, when the store decides and this replica keeps to its share.",
			prometheus.Labels{"state": s.String()}, func(st resilience.Status) float64 { return truth(st.State == s) })
	}
	gauge("tidegate_store_breaker_open", "1 while the shared store is asked by probes alone.", nil,
		func(st resilience.Status) float64 { return truth(st.State == resilience.Fallback) })
	gauge("tidegate_store_replicas", "Replicas that share the store, as it last told; 0 if it never has.", nil,
		func(st resilience.Status) float64 { return float64(st.Replicas) })
	gauge("tidegate_fallback_debts", "Keys of which the shared store is yet to be charged what passed without it.", nil,
		func(st resilience.Status) float64 { return float64(st.Debts) })
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidegate_fallback_debts_forgotten_total",
		Help: "Keys that were forgotten, for lack of room, before the shared store was charged.",
	}, func() float64 { return float64(status().Forgotten) }))
	if told == nil {
		return
	}
	m.registry.MustRegister(told.changes, told.decisions, told.shares, told.repaid, told.unpaid,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tidegate_fallback_seconds_total",
			Help: "How long the shared store has been away, in all.",
		}, func() float64 { return told.seconds(status()) }))
}

// guardedReady answers that takes should be sent here, and whether that is without the store: as well as a replica with it
// can say, since what keeps one replica from the store often keeps all.
func (s *Server) guardedReady() (reply, error) {
	st := s.status()
	if st.State == resilience.Shared {
		return done("ready"), nil
	}
	b, err := json.Marshal(struct {
		Ready  bool   `json:"ready"`
		State  string `json:"state"`
		Reason string `json:"reason"`
	}{true, "degraded", reasonOf(st)})
	return reply{status: http.StatusOK, body: b}, err
}

// reasonOf says why the store does not decide, or not alone.
func reasonOf(st resilience.Status) string {
	switch st.State {
	case resilience.Fallback:
		reason := "the store is away"
		if st.Err != nil {
			reason += ": " + cause(st.Err).Error()
		}
		return reason
	case resilience.Returning:
		return "the store is back, and this replica keeps to its share until the others have noticed"
	case resilience.Shared:
	}
	return ""
}
