package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/resilience"
)

// metrics is what /metrics tells. Labels are rule, outcome, source, state and kind alone: a key in a label would be a series for
// each user, and tell who they are.
type metrics struct {
	registry  *prometheus.Registry
	decisions *decisionSeries
	calls     *callMetrics
	rejected  prometheus.Counter
}

// callMetrics tells of calls of the store.
type callMetrics struct {
	seconds  prometheus.Histogram
	failures *prometheus.CounterVec
	recent   latency
}

func newCallMetrics() *callMetrics {
	return &callMetrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tidegate_store_duration_seconds",
			Help:    "How long the store took to answer, whatever it was asked.",
			Buckets: []float64{.00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_store_errors_total",
			Help: "Calls that the store failed, by the kind of failure.",
		}, []string{"kind"}),
	}
}

// saw takes note of a call.
func (m *callMetrics) saw(took time.Duration, kind resilience.ErrorKind) {
	if kind == resilience.KindCaller {
		return // who left did not see how long it takes, and it has not failed
	}
	m.seconds.Observe(took.Seconds())
	m.recent.saw(time.Now(), took)
	if kind != resilience.NoError {
		m.failures.WithLabelValues(string(kind)).Inc()
	}
}

func newMetrics(running func() float64, calls *callMetrics) *metrics {
	registry := prometheus.NewRegistry()
	m := &metrics{
		calls:    calls,
		registry: registry,
		decisions: newDecisionSeries(registry, prometheus.CounterOpts{
			Name: "tidegate_decisions_total",
			Help: "Decisions on takes and acquires, by the rule that decided (empty where none matched), the outcome (allowed or denied) and the source. Peeks and refunds are not counted.",
		}, outcome(true), outcome(false)),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_requests_rejected_total",
			Help: "Requests that were answered 503 because too many ran at once.",
		}),
	}
	m.registry.MustRegister(calls.seconds, calls.failures, m.rejected,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidegate_requests_running",
			Help: "Requests that are being answered.",
		}, running),
		collectors.NewBuildInfoCollector(),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// decision counts the answer to a take.
func (m *metrics) decision(d *tidegate.Decision) {
	denied := 0
	if !d.Allowed {
		denied = 1
	}
	m.decisions.inc(d.Rule, denied, d.Source)
}

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
