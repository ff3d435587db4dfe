package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// told is a Counter and a Tracker.
type told struct {
	mu     sync.Mutex
	counts map[string]int
	keys   []string
}

func (o *told) Count(rule string, outcome Outcome, _ tidegate.Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = map[string]int{}
	}
	o.counts[fmt.Sprint(rule, " ", outcome)]++
}

func (o *told) Observe(rule, key string, cost int64, allowed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, fmt.Sprint(rule, " ", key, " ", cost, " ", allowed))
}

func TestHooks(t *testing.T) {
	var o told
	e := newEngine(t, &Config{Counter: &o, Tracker: &o}, `
version: 1
rules:
  - {name: a, key: [user], limit: 1/h, missing: deny}
  - {name: b, limit: 10/h}
  - {name: s, limit: 1/h, shadow: true}
`)
	for range 2 {
		decide(t, e, attrs{"user": "u"}, 1)
	}
	decide(t, e, attrs{}, 1)
	decide(t, e, attrs{"user": "u"}, 0)
	decide(t, e, attrs{"user": "u"}, -1)
	want := fmt.Sprint(map[string]int{"a 0": 1, "a 1": 2, "b 0": 3, "s 0": 1, "s 2": 2})
	if got := fmt.Sprint(o.counts); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	if got := strings.Join(o.keys, ", "); got != "a u 1 true, b  1 true, s  1 true, a u 1 false, b  1 true, s  1 false, b  1 true, s  1 false" {
		t.Errorf("observed %s", got)
	}
}

// refusing is a guard that refuses every other take.
type refusing struct{ admitted, refunded, asked int }

func (g *refusing) Admit(ms []Matched) (tidegate.Decision, bool) {
	g.asked++
	if g.asked%2 == 0 {
		return tidegate.Decision{Rule: ms[0].Rule.Name, Limit: 5, RetryAfter: time.Second}, false
	}
	g.admitted++
	return tidegate.Decision{}, true
}

func (g *refusing) Refund([]Matched) { g.refunded++ }

func TestGuard(t *testing.T) {
	var g refusing
	var o told
	e := newEngine(t, &Config{Guard: &g, Counter: &o}, "version: 1\nrules:\n  - {name: a, key: [user], limit: 3/h}\n")
	allowed := 0
	for range 10 {
		if decide(t, e, attrs{"user": "u"}, 1).Allowed {
			allowed++
		}
	}
	decide(t, e, attrs{"user": "u"}, 0) // a peek asks no guard
	if allowed != 3 || g.asked != 10 || g.admitted != 5 || g.refunded != 2 || o.counts["a 1"] != 7 {
		t.Errorf("%d allowed, guard %+v, counted %v", allowed, g, o.counts)
	}
}

func TestStoreErrors(t *testing.T) {
	store := memstore.New(nil)
	e, err := New(store, mustParse(t, "version: 1\nrules:\n  - {name: a, limit: 1/h}\n"), &Config{Guard: &refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if _, err := e.Decide(context.Background(), nil, 1); !errors.Is(err, tidegate.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if g := e.cfg.Guard.(*refusing); g.refunded != 1 {
		t.Errorf("%d refunds, want 1", g.refunded)
	}
}
