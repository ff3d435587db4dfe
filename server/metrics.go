package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tidegate-go/tidegate"
)

// metrics is what /metrics tells. Labels are rule, outcome and source alone: a key in a label would be a series for
// each user, and tell who they are.
type metrics struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec
	seconds   prometheus.Histogram
	failures  prometheus.Counter
	rejected  prometheus.Counter
}

func newMetrics(running func() float64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_decisions_total",
			Help: "Decisions on takes and acquires, by the rule that decided (empty where none matched), the outcome (allowed or denied) and the source. Peeks and refunds are not counted.",
		}, []string{"rule", "outcome", "source"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tidegate_store_duration_seconds",
			Help:    "How long the store took to answer, whatever it was asked.",
			Buckets: []float64{.00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_store_errors_total",
			Help: "Calls that the store failed, so that there was no decision.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_requests_rejected_total",
			Help: "Requests that were answered 503 because too many ran at once.",
		}),
	}
	m.registry.MustRegister(m.decisions, m.seconds, m.failures, m.rejected,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidegate_requests_running",
			Help: "Requests that are being answered.",
		}, running),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// decision counts the answer to a take.
func (m *metrics) decision(d *tidegate.Decision) {
	outcome := "denied"
	if d.Allowed {
		outcome = "allowed"
	}
	m.decisions.WithLabelValues(d.Rule, outcome, d.Source.String()).Inc()
}
