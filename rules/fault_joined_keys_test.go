package rules

import (
	"context"
	"testing"
)

// Names joined by a sign that they may hold were one: a rule (a, value b) and a rule a_b could not be in one file
// (envoyproxy/ratelimit, loadDescriptors), and the users eu_1 of acme and 1 of acme_eu shared a counter (gubernator).
func TestFaultJoinedKeys(t *testing.T) {
	e := newEngine(t, nil, `
version: 1
rules:
  - {name: a, match: {x: b}, key: [tenant, user], limit: 1/h}
  - {name: a_b, match: {x: c}, key: [tenant, user], limit: 100/h}
`)
	for _, key := range [][]string{{"acme", "eu_1"}, {"acme_eu", "1"}, {"a/b", "c"}, {"a", "b/c"}, {"a%2Fb", "c"}, {"", "x"}, {"x", ""}} {
		for i := range 2 {
			d, err := e.TakeKey(context.Background(), "a", key, 1)
			if err != nil || d.Allowed != (i == 0) {
				t.Errorf("%q, take %d: %+v, %v", key, i+1, d, err)
			}
		}
	}
}
