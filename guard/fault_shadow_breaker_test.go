package guard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/downstream"
	"github.com/tidegate-go/tidegate/rules"
)

const shadowed = `
version: 1
rules:
  - {name: new, match: {path: /a}, key: [user], limit: 1/h, SHADOW, breaker: {refusal_ratio: 50%, failure_ratio: 50%, minimum_calls: 10}}
  - {name: shed, match: {path: /a}, limit: 1000/s burst 1000, tighten: {breaker: new, to: 0%}}
  - {name: tightened, match: {path: /b}, limit: 100/h burst 100, tighten: {breaker: new, to: 1%}}
`

// A rule that was tried out in shadow tripped its breaker by refusals that nobody saw, and so shed the traffic of enforced rules that are
// linked to it.
func TestFaultShadowBreaker(t *testing.T) {
	t.Run("shadow", func(t *testing.T) { shadowTripsNothing(t, "shadow: true") })
	t.Run("enforced for nobody", func(t *testing.T) { shadowTripsNothing(t, "enforce: 0%") })
}

func shadowTripsNothing(t *testing.T, how string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newStore(t), strings.Replace(shadowed, "SHADOW", how, 1), nil)
		time.Sleep(time.Second)
		for i := range 100 {
			if d := r.decide(t, "/a"); !d.Allowed {
				t.Fatalf("take %d: %+v", i+1, d)
			}
			if d := r.decide(t, "/b"); !d.Allowed {
				t.Fatalf("take %d of the tightened rule: %+v", i+1, d)
			}
		}
		if st := r.guard.Status()[0]; st.State != downstream.Open {
			t.Errorf("what it would do is not told: %+v", st)
		}
		// Enforced, it begins closed: it is no outage that nobody was refused.
		enforced, err := rules.Parse("test.yaml", []byte(strings.Replace(shadowed, "SHADOW", "shadow: false", 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.guard.Use(enforced); err != nil {
			t.Fatal(err)
		}
		r.Swap(enforced, time.Now())
		if st := r.guard.Status()[0]; st.State != downstream.Closed {
			t.Errorf("enforced: %+v", st)
		}
		for range 10 {
			if err := r.guard.Record("new", 0, downstream.Failed); err != nil {
				t.Error(err)
			}
		}
		if d := r.decide(t, "/a"); d.Allowed {
			t.Errorf("enforced, and open: %+v", d)
		}
	})
}

// Where a rule is enforced for a part of its keys, the others trip nothing.
func TestFaultShadowKeysTripNothing(t *testing.T) {
	for part, want := range map[string]downstream.State{"1%": downstream.Closed, "100%": downstream.Open} {
		synctest.Test(t, func(t *testing.T) {
			r := open(t, newStore(t), strings.Replace(shadowed, "SHADOW", "enforce: "+part, 1), nil)
			time.Sleep(time.Second)
			for range 100 {
				if d, err := r.Decide(r.ctx, tidegate.AttributeMap{"path": "/a", "user": "u"}, 1); err != nil || !d.Allowed && part == "1%" {
					t.Fatalf("enforced for %s: %+v, %v", part, d, err)
				}
			}
			if st := r.guard.Status()[0]; st.State != want {
				t.Errorf("enforced for %s: %+v", part, st)
			}
		})
	}
}
