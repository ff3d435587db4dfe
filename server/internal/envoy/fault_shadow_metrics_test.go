package envoy

import (
	"testing"

	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/redisstore"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// RB-012: what a store remembers to have refused changes no metric of a limit in shadow mode. RB-015: nor does a refusal
// grow any metric by more than the hits that were asked for.
func TestShadowIsCountedThroughTheDeniedCache(t *testing.T) {
	srv := redistest.Start(t)
	store, err := redisstore.Open(srv.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := NewMetrics()
	s, err := NewService(ServiceConfig{Store: store, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	s.Set(mustParse(t, `
domain: d
descriptors:
- key: shadow
  shadow_mode: true
  rate_limit: {unit: year, requests_per_unit: 1}
- key: enforced
  rate_limit: {unit: year, requests_per_unit: 3}
`))
	ask := func(hits uint32, descriptor string) *ratelimitv3.RateLimitResponse {
		req := &ratelimitv3.RateLimitRequest{Domain: "d", HitsAddend: hits}
		req.Descriptors = append(req.Descriptors, parseDescriptor(t, descriptor))
		resp, err := s.Answer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for range 4 {
		if resp := ask(1, "shadow=a"); resp.GetOverallCode() != codeOK {
			t.Errorf("refused: %v", resp)
		}
	}
	if c := m.all[labels{"d", "shadow", ""}]; c.total.Load() != 4 || c.over.Load() != 3 || c.shadow.Load() != 3 || c.within.Load() != 1 {
		t.Errorf("total %d, over %d, shadow %d, within %d; want 4, 3, 3, 1", c.total.Load(), c.over.Load(), c.shadow.Load(), c.within.Load())
	}
	ask(1, "enforced=a")
	for range 3 {
		if resp := ask(5, "enforced=a"); resp.GetOverallCode() != codeOver {
			t.Errorf("allowed: %v", resp)
		}
	}
	if c := m.all[labels{"d", "enforced", ""}]; c.total.Load() != 16 || c.over.Load() != 15 || c.near.Load() != 0 || c.within.Load() != 1 {
		t.Errorf("total %d, over %d, near %d, within %d; want 16, 15, 0, 1", c.total.Load(), c.over.Load(), c.near.Load(), c.within.Load())
	}
}
