package rules

import "testing"

// A rule in shadow that had run out ended the check early, so that the enforced rules of the request were neither evaluated
// nor charged (envoyproxy/envoy#46390); and where a local cache knew that it was over, it was no longer counted
// (envoyproxy/ratelimit#424).
func TestFaultShadowStopsEvaluation(t *testing.T) {
	var o told
	e := newEngine(t, &Config{Counter: &o}, `
version: 1
rules:
  - {name: s, limit: 1/min fixed-window, shadow: true}
  - {name: e, limit: 3/min fixed-window}
`)
	for i := range 10 {
		d := decide(t, e, nil, 1)
		if d.Allowed != (i < 3) || d.Rule != "e" {
			t.Errorf("take %d: %+v", i+1, d)
		}
	}
	if o.counts["s 0"] != 1 || o.counts["s 2"] != 9 || o.counts["e 0"] != 3 || o.counts["e 1"] != 7 {
		t.Errorf("counted %v", o.counts)
	}
}
