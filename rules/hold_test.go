package rules

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// holdFor holds, and wants no error.
func holdFor(tb testing.TB, e *Engine, a attrs, terms tidegate.Terms) (tidegate.Decision, tidegate.Hold) {
	tb.Helper()
	d, h, err := e.HoldFor(context.Background(), a, terms)
	if err != nil {
		tb.Fatal(err)
	}
	return d, h
}

// room is what remains of a rule.
func room(tb testing.TB, e *Engine, rule string) int64 {
	tb.Helper()
	m, err := e.MatchKey(rule, nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	peek := []Matched{m}
	if _, err := e.Take(context.Background(), peek); err != nil {
		tb.Fatal(err)
	}
	return peek[0].Decision.Remaining // the rule's own, also in shadow
}

func wantRoom(tb testing.TB, e *Engine, when string, rules map[string]int64) {
	tb.Helper()
	for rule, want := range rules {
		if got := room(tb, e, rule); got != want {
			tb.Errorf("%s: %d left of %q, want %d", when, got, rule, want)
		}
	}
}

var cost1 = tidegate.Terms{Cost: 1}

// Permits and charges are taken together, or not at all; Release gives the permits back, Cancel both.
func TestHoldForRatesAndPermits(t *testing.T) {
	e := newEngine(t, nil, `
version: 1
rules:
  - {name: rate, limit: 5/h}
  - {name: twice, limit: 20/h, cost: 2}
  - {name: window, limit: 5/h fixed-window}
  - {name: many, limit: 3 concurrent}
  - {name: few, limit: 2 concurrent ttl 30s}
  - {name: free, limit: unlimited}
`)
	terms := tidegate.Terms{Cost: 1, CancelWithin: time.Minute}
	_, first := holdFor(t, e, nil, cost1)
	_, second := holdFor(t, e, nil, terms)
	wantRoom(t, e, "with two", map[string]int64{"rate": 3, "twice": 16, "window": 3, "many": 1, "few": 0})
	if d, h := holdFor(t, e, nil, terms); d.Allowed || d.Rule != "few" || h != nil {
		t.Errorf("a third: %+v, %v", d, h)
	}
	wantRoom(t, e, "after a refusal", map[string]int64{"rate": 3, "twice": 16, "window": 3, "many": 1, "few": 0})
	if first.TTL() != 30*time.Second {
		t.Errorf("TTL %v, want that of the permit that expires first", first.TTL())
	}
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantRoom(t, e, "one released", map[string]int64{"rate": 3, "twice": 16, "window": 3, "many": 2, "few": 1})
	if err := second.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	wantRoom(t, e, "the other cancelled", map[string]int64{"rate": 4, "twice": 18, "window": 4, "many": 3, "few": 2})
	if err := second.Cancel(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Errorf("cancelled twice: %v", err)
	}
	wantRoom(t, e, "and once more", map[string]int64{"rate": 4, "twice": 18, "window": 4, "many": 3, "few": 2})
	if err := second.Renew(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Errorf("renewed what is given back: %v", err)
	}
}

// Where nothing can be given back, nothing is held, and the take is like any other.
func TestHoldForNothing(t *testing.T) {
	e := newEngine(t, nil, `
version: 1
rules:
  - {name: rate, limit: 5/h}
  - {name: of-users, key: [user], limit: 1 concurrent}
`)
	if d, h := holdFor(t, e, nil, cost1); !d.Allowed || h != nil || d.Rule != "rate" {
		t.Errorf("%+v %v", d, h)
	}
	if d, h := holdFor(t, e, attrs{"user": "a"}, tidegate.Terms{Cost: 1, NoPermits: true}); !d.Allowed || h != nil {
		t.Errorf("without permits: %+v %v", d, h)
	}
	if d, h := holdFor(t, e, attrs{"user": "a"}, tidegate.Terms{}); !d.Allowed || h != nil || d.Remaining != 3 {
		t.Errorf("a peek: %+v %v", d, h)
	}
	if d, h := holdFor(t, newEngine(t, nil, "version: 1\nrules: [{name: a, key: [a], limit: 1/h}]"), nil, cost1); !d.Allowed || h != nil {
		t.Errorf("no rule: %+v %v", d, h)
	}
}

// A hold is settled by Release, so that the store forgets it: a cancel afterwards gives nothing back.
func TestHoldForReleasesWhatStaysCharged(t *testing.T) {
	e := newEngine(t, nil, "version: 1\nrules: [{name: a, limit: 5/h}, {name: b, limit: 5/h, shadow: true}]")
	_, h := holdFor(t, e, nil, tidegate.Terms{Cost: 2, CancelWithin: time.Hour})
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Cancel(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
		t.Error(err)
	}
	wantRoom(t, e, "released", map[string]int64{"a": 3, "b": 3})
}

// What a rule in shadow charged is given back, too; what it did not is not.
func TestHoldForShadow(t *testing.T) {
	e := newEngine(t, nil, `
version: 1
rules:
  - {name: a, limit: 5/h}
  - {name: rate, limit: 1/h, shadow: true}
  - {name: permits, limit: 1 concurrent, shadow: true}
`)
	terms := tidegate.Terms{Cost: 1, CancelWithin: time.Hour}
	_, first := holdFor(t, e, nil, terms)
	d, second := holdFor(t, e, nil, terms)
	if !d.Allowed || second == nil {
		t.Fatalf("refused in shadow: %+v", d)
	}
	wantRoom(t, e, "two", map[string]int64{"a": 3, "rate": 0, "permits": 0})
	if err := second.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	wantRoom(t, e, "what found no room is cancelled", map[string]int64{"a": 4, "rate": 0, "permits": 0})
	if err := first.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	wantRoom(t, e, "all is", map[string]int64{"a": 5, "rate": 1, "permits": 1})
}

// A start that is later can be cancelled until then, whatever delays it.
func TestHoldForLater(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		terms tidegate.Terms
	}{
		"a wait":         {"{name: rate, limit: 1/s burst 2}, {name: log, limit: 9/h sliding-log}", tidegate.Terms{Cost: 1, MaxWait: time.Minute}},
		"a log first":    {"{name: log, limit: 9/h sliding-log}, {name: rate, limit: 1/s burst 2}", tidegate.Terms{Cost: 1, MaxWait: time.Minute}},
		"a leaky bucket": {"{name: rate, limit: 9/h}, {name: leaky, limit: 1/s leaky-bucket queue 5}", cost1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, nil, "version: 1\nrules: ["+c.rules+"]")
				var d tidegate.Decision
				var h tidegate.Hold
				for d.Delay == 0 {
					d, h = holdFor(t, e, nil, c.terms)
				}
				if d.Delay != time.Second || h == nil {
					t.Fatalf("%+v %v", d, h)
				}
				before := room(t, e, "rate")
				if err := h.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
				if after := room(t, e, "rate"); after < before {
					t.Errorf("%d, then %d", before, after)
				}
				if d, _ := holdFor(t, e, nil, c.terms); d.Delay != time.Second {
					t.Errorf("the next is delayed by %v: nothing was given back", d.Delay)
				}
			})
		})
	}
}

// A sliding log cannot give back, and says so by its name.
func TestHoldForUnsupported(t *testing.T) {
	e := newEngine(t, nil, "version: 1\nrules: [{name: exact, limit: 5/h sliding-log}]")
	_, _, err := e.HoldFor(t.Context(), attrs{}, tidegate.Terms{Cost: 1, CancelWithin: 1})
	if !errors.Is(err, tidegate.ErrUnsupported) || !strings.Contains(err.Error(), `"exact"`) {
		t.Error(err)
	}
	if d, h := holdFor(t, e, nil, tidegate.Terms{Cost: 1, MaxWait: time.Hour}); !d.Allowed || h != nil {
		t.Errorf("%+v %v", d, h)
	}
}

// Permits live on while they are renewed, and no longer.
func TestHoldForRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, "version: 1\nrules: [{name: a, limit: 1 concurrent ttl 3s}, {name: b, limit: 1 concurrent}]")
		_, h := holdFor(t, e, nil, cost1)
		for range 10 {
			time.Sleep(2 * time.Second)
			if err := h.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d, _ := holdFor(t, e, nil, cost1); d.Allowed {
			t.Error("two at once")
		}
		time.Sleep(3 * time.Second)
		if err := h.Renew(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Error(err)
		}
	})
}

// A store that is away is an error, and a guard is given back what it admitted.
func TestHoldForFails(t *testing.T) {
	store := memstore.New(nil)
	e, err := New(store, mustParse(t, "version: 1\nrules: [{name: a, limit: 1 concurrent}]"), nil)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if _, h, err := e.HoldFor(t.Context(), attrs{}, cost1); !errors.Is(err, tidegate.ErrClosed) || h != nil {
		t.Errorf("%v %v", h, err)
	}
}

// The limit behind a decision is found by the rule, and among its overrides by the capacity, where that says it.
func TestLimitOf(t *testing.T) {
	e := newEngine(t, nil, `
version: 1
rules:
  - {name: one, limit: 10/s burst 20}
  - name: several
    key: [user]
    limit: 100/min burst 20
    overrides:
      - {match: {user: a}, limit: 100/h burst 30}
      - {match: {user: b}, limit: 100/day burst 30}
      - {match: {user: c}, limit: unlimited}
`)
	for _, c := range []struct {
		rule     string
		capacity int64
		want     time.Duration
	}{
		{"one", 20, time.Second}, {"one", 7, time.Second}, // a share of it
		{"several", 20, time.Minute}, {"several", 30, 0}, {"several", 7, 0}, {"several", tidegate.NoLimit, 0}, {"gone", 1, 0},
	} {
		l := e.LimitOf(c.rule, c.capacity)
		if c.want == 0 && l != nil || c.want != 0 && (l == nil || l.Per != c.want) {
			t.Errorf("%s of %d: %v, want one per %v", c.rule, c.capacity, l, c.want)
		}
	}
}
