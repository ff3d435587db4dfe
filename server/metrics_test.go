package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

func TestMetrics(t *testing.T) {
	store := newFaultyStore(t)
	s := newServerOn(t, store, nil)
	const secret = "user:secret"
	for range 21 {
		post(s, "/v1/take", `{"rule":"example","key":"`+secret+`"}`)
	}
	post(s, "/v1/peek", `{"rule":"example","key":"`+secret+`"}`)
	withToken(s, "/v1/take", `{"rule":"example","key":"`+secret+`","cost":-1}`)
	post(s, "/v1/take", `{"attributes":{"tenant":"`+secret+`"}}`) // global alone
	id := idOf(t, post(s, "/v1/acquire", `{"rule":"permits","key":"`+secret+`"}`))
	post(s, "/v1/release", `{"id":"`+id+`"}`)
	store.down.Store(true)
	post(s, "/v1/take", `{"rule":"example","key":"`+secret+`"}`)

	text := call(s, http.MethodGet, "/metrics", "").Body.String()
	for _, line := range []string{
		`tidegate_decisions_total{outcome="allowed",rule="example",source="store"} 20`,
		`tidegate_decisions_total{outcome="denied",rule="example",source="store"} 1`,
		`tidegate_decisions_total{outcome="allowed",rule="global",source="store"} 1`,
		`tidegate_decisions_total{outcome="allowed",rule="permits",source="store"} 1`,
		`tidegate_store_errors_total{kind="other"} 1`,
		`tidegate_store_duration_seconds_count 27`,
		`tidegate_requests_running 0`,
		`tidegate_requests_rejected_total 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("/metrics tells a key")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "tidegate_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "tidegate_") {
			wantLabels(t, f)
		}
	}
}

// wantLabels holds the labels to those that cannot tell a key.
func wantLabels(t *testing.T, f *dto.MetricFamily) {
	t.Helper()
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			switch l.GetName() {
			case "rule", "outcome", "source", "state", "kind":
			default:
				t.Errorf("%s has the label %s", f.GetName(), l.GetName())
			}
		}
	}
}
