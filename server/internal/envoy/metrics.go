package envoy

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate-go/tidegate"
)

// nearRatio is the part of a limit beyond which hits are near it, as NEAR_LIMIT_RATIO is by default.
const nearRatio = 0.8

// maxValues bounds the series of one limit whose metrics tell values of requests; all further values are "other".
const maxValues = 1000

// Metrics counts under the names that envoyproxy/ratelimit has in Prometheus, so that dashboards go on. It is a
// [prometheus.Collector]. Labels are the domain and the first two levels of a descriptor, as its default mapping has them;
// deeper levels are added up. A value of a request is in a label only where the files ask for it, and then not without
// bound.
type Metrics struct {
	unknownDomain             atomic.Uint64
	requests                  atomic.Uint64
	storeErrors, badRequests  atomic.Uint64
	loadSuccesses, loadErrors atomic.Uint64
	seconds                   prometheus.Histogram

	mu     sync.RWMutex
	all    map[labels]*counted
	values map[string]int // how many series the values of a limit have made, by the label of its rule
}

type labels struct{ domain, key1, key2 string }

// counted is what is counted of the limits of one series.
type counted struct{ total, over, near, within, shadow atomic.Uint64 }

// NewMetrics returns metrics that have counted nothing.
func NewMetrics() *Metrics {
	return &Metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "ratelimit_service_response_time_seconds",
			Help:        "How long requests of proxies took to answer.",
			ConstLabels: prometheus.Labels{"grpc_method": method},
			Buckets:     []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		all:    map[labels]*counted{},
		values: map[string]int{},
	}
}

const method = "ShouldRateLimit"

func (m *Metrics) called(took time.Duration) {
	m.requests.Add(1)
	m.seconds.Observe(took.Seconds())
}

func (m *Metrics) failed(err error) {
	if _, ok := errors.AsType[*RequestError](err); ok || errors.Is(err, ErrNoConfig) {
		m.badRequests.Add(1)
		return
	}
	m.storeErrors.Add(1)
}

// attach gives each limit of a config what it is counted by.
func (m *Metrics) attach(c *Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range c.domains {
		d.root.each(func(n *node) {
			if !n.limit.tellsValues() {
				n.limit.counted = m.series(n.limit.labels(d.name, nil))
			}
		})
	}
}

// series returns what counts under the labels, with mu held.
func (m *Metrics) series(ls labels) *counted {
	c := m.all[ls]
	if c == nil {
		c = new(counted)
		// They may be parts of a request's text, of which no more is to be kept than they are.
		m.all[labels{strings.Clone(ls.domain), strings.Clone(ls.key1), strings.Clone(ls.key2)}] = c
	}
	return c
}

// of returns what a limit is counted by for a descriptor.
func (m *Metrics) of(l *limit, domain string, desc *commonv3.RateLimitDescriptor) *counted {
	if l.counted != nil {
		return l.counted
	}
	ls := l.labels(domain, desc)
	m.mu.RLock()
	c := m.all[ls]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[ls] == nil {
		if m.values[l.label] >= maxValues {
			ls = labels{domain: ls.domain, key1: "other"}
		} else {
			m.values[l.label]++
		}
	}
	return m.series(ls)
}

// count counts what was decided about a descriptor. A request that was refused charged nothing, so that its hits are near
// no limit.
func (m *Metrics) count(a *asked, desc *commonv3.RateLimitDescriptor, domain string, d *tidegate.Decision, charged bool) {
	if a.cost <= 0 {
		return
	}
	hits := uint64(a.cost)
	c := m.of(a.limit, domain, desc)
	c.total.Add(hits)
	if !d.Allowed {
		c.over.Add(hits)
		if a.limit.shadow {
			c.shadow.Add(hits)
		}
		return
	}
	c.within.Add(hits)
	if used, near := d.Limit-d.Remaining, int64(math.Floor(float64(d.Limit)*nearRatio)); charged && used > near {
		c.near.Add(uint64(min(a.cost, used-near)))
	}
}

// tellsValues reports whether the labels of the limit hold values of requests.
func (l *limit) tellsValues() bool {
	for _, n := range l.levels[:min(2, len(l.levels))] {
		if n.value == "" || n.wild != nil && !n.shared {
			if l.detailed || n.valueMetric {
				return true
			}
		}
	}
	return false
}

// labels are those of the limit, with what the descriptor says where the files ask for it.
func (l *limit) labels(domain string, desc *commonv3.RateLimitDescriptor) labels {
	var keys [2]string
	for i, n := range l.levels[:min(2, len(l.levels))] {
		value := n.value
		if desc != nil && !n.shared && (l.detailed || n.valueMetric) {
			value = desc.GetEntries()[i].GetValue()
		}
		keys[i] = n.key
		if value != "" {
			keys[i] += "_" + value
		}
		keys[i] = sanitized(keys[i])
	}
	return labels{sanitized(domain), keys[0], keys[1]}
}

var address = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitized is a text as it has always stood in these labels: without the signs that the format of statsd uses.
func sanitized(s string) string {
	if strings.ContainsAny(s, ":|") {
		s = strings.NewReplacer(":", "_", "|", "_").Replace(s)
	}
	if strings.Contains(s, ".") {
		s = address.ReplaceAllStringFunc(s, func(a string) string { return strings.ReplaceAll(a, ".", "_") })
	}
	const most = 200
	if len(s) > most {
		s = s[:most]
	}
	return valid(s)
}

// They are exposed without a type: a counter's name would have to end in _total, and these are what dashboards ask for.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_"+name, help, labels, nil)
}

var (
	descTotal   = desc("rate_limit_total_hits", "Hits that were asked for.", "domain", "key1", "key2")
	descOver    = desc("rate_limit_over_limit", "Hits that were above the limit.", "domain", "key1", "key2")
	descNear    = desc("rate_limit_near_limit", "Hits that were charged above 80 % of the limit.", "domain", "key1", "key2")
	descWithin  = desc("rate_limit_within_limit", "Hits that were within the limit.", "domain", "key1", "key2")
	descShadow  = desc("rate_limit_shadow_mode", "Hits above the limit that passed because it is in shadow mode.", "domain", "key1", "key2")
	descErrors  = desc("should_rate_limit_error", "Requests that could not be decided: for want of the store (redis_error) or of sense (service_error).", "err_type")
	descCalls   = desc("total_requests", "Requests of proxies.", "grpc_method")
	descLoaded  = desc("config_load_success", "Times that changed files were loaded.")
	descFailed  = desc("config_load_error", "Times that changed files could not be loaded.")
	descUnknown = prometheus.NewDesc("tidegate_envoy_unknown_domains_total", "Requests for a domain that no file has.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTotal, descOver, descNear, descWithin, descShadow, descErrors, descCalls, descLoaded, descFailed, descUnknown} {
		ch <- d
	}
	m.seconds.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.UntypedValue, float64(v.Load()), labels...)
	}
	m.mu.RLock()
	for ls, c := range m.all {
		send(descTotal, &c.total, ls.domain, ls.key1, ls.key2)
		send(descOver, &c.over, ls.domain, ls.key1, ls.key2)
		send(descNear, &c.near, ls.domain, ls.key1, ls.key2)
		send(descWithin, &c.within, ls.domain, ls.key1, ls.key2)
		send(descShadow, &c.shadow, ls.domain, ls.key1, ls.key2)
	}
	m.mu.RUnlock()
	send(descErrors, &m.storeErrors, "redis_error")
	send(descErrors, &m.badRequests, "service_error")
	send(descCalls, &m.requests, method)
	send(descLoaded, &m.loadSuccesses)
	send(descFailed, &m.loadErrors)
	ch <- prometheus.MustNewConstMetric(descUnknown, prometheus.CounterValue, float64(m.unknownDomain.Load()))
	m.seconds.Collect(ch)
}
