package envoy

import (
	"fmt"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tidegate-go/tidegate/memstore"
)

// RB-025: as many values as an attacker likes make no more series than are allowed, also where the files ask for values in
// labels, and none where they do not.
func TestCardinality(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	m := NewMetrics()
	s, err := NewService(ServiceConfig{Store: store, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	s.Set(mustParse(t, `
domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: route
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 1}
`))
	const users = 100_000
	for i := range users {
		req := &ratelimitv3.RateLimitRequest{Domain: "d"}
		req.Descriptors = append(req.Descriptors, parseDescriptor(t, fmt.Sprintf("user=user-%d", i)), parseDescriptor(t, fmt.Sprintf("route=/%d", i)))
		if _, err := s.Answer(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.all); n > maxValues+2 { // and user, and other
		t.Errorf("%d series of %d users", n, users)
	}
	if got := m.all[labels{"d", "user", ""}].total.Load(); got != users {
		t.Errorf("%d hits of users, want %d", got, users)
	}
	if got := m.all[labels{"d", "other", ""}].total.Load(); got != users-maxValues {
		t.Errorf("%d hits of other values, want %d", got, users-maxValues)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	problems, err := promlint.NewWithMetricFamilies(gather(t, r)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
