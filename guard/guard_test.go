package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/downstream"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const file = `
version: 1
rules:
  - name: database
    match: {path: /db/**}
    limit: 1000/s burst 1000
    breaker: {failure_ratio: 50%, minimum_calls: 10, open_time: 5s, half_open_calls: 2, ramp: 10s}
  - name: reports
    match: {path: /db/reports/**}
    key: [user]
    limit: 100/s burst 100
    tighten: {breaker: database, to: 20%}
  - name: exports
    match: {path: /db/exports/**}
    limit: 100/s burst 100
    tighten: {breaker: database, to: 0%}
  - name: batch
    match: {path: /batch}
    limit: 100/s burst 100
    tighten: [{breaker: database, to: 50%}]
`

type replica struct {
	*rules.Engine

	guard *Guard
	ctx   context.Context
}

// open returns an engine of the rules over the store, with a guard.
func open(tb testing.TB, store tidegate.Store, text string, cfg *Config) replica {
	tb.Helper()
	set, err := rules.Parse("test.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	g := New(cfg)
	tb.Cleanup(func() { _ = g.Close() })
	if err := g.Use(set); err != nil {
		tb.Fatal(err)
	}
	e, err := rules.New(store, set, &rules.Config{Guard: g, Tracker: g})
	if err != nil {
		tb.Fatal(err)
	}
	return replica{e, g, tb.Context()}
}

func newStore(tb testing.TB) *memstore.Store {
	tb.Helper()
	s := memstore.New(&memstore.Config{SweepEvery: -1})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func (r replica) decide(tb testing.TB, path string) tidegate.Decision {
	tb.Helper()
	d, err := r.Decide(r.ctx, tidegate.AttributeMap{"path": path, "user": "u"}, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// admitted asks every millisecond for a second, and returns how often the answer was yes.
func (r replica) admitted(tb testing.TB, path string) (n int) {
	tb.Helper()
	for range 1000 {
		if r.decide(tb, path).Allowed {
			n++
		}
		time.Sleep(time.Millisecond)
	}
	return n
}

func (r replica) record(tb testing.TB, n int, o downstream.Outcome) {
	tb.Helper()
	for range n {
		if err := r.guard.Record("database", time.Microsecond, o); err != nil {
			tb.Error(err)
		}
	}
}

// trip opens the breaker of the database, as of a moment later than everything before.
func (r replica) trip(tb testing.TB) {
	tb.Helper()
	time.Sleep(time.Millisecond)
	r.record(tb, 10, downstream.Failed)
}

func near(got, want, by int) bool { return got >= want-by && got <= want+by }

// The rule that has the breaker fails fast, the rules that are linked to it tighten, and all of it comes back.
func TestBreakerAndLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		r := open(t, newStore(t), file, &Config{Changed: func(rule string, c downstream.Change) { changes = append(changes, rule+": "+c.String()) }})
		time.Sleep(time.Second)
		if n := r.admitted(t, "/batch"); !near(n, 200, 2) {
			t.Errorf("%d of batch while all is well", n)
		}
		r.trip(t)
		d := r.decide(t, "/db/x")
		if want := (tidegate.Decision{Source: tidegate.SourceFallback, Rule: "database", RetryAfter: 5 * time.Second}); d != want || !d.Unavailable() {
			t.Errorf("%+v", d)
		}
		if d := r.decide(t, "/other"); !d.Allowed {
			t.Errorf("another path: %+v", d)
		}
		// Its local bucket is full at first, with half of the burst.
		if n := r.admitted(t, "/batch"); !near(n, 100, 3) {
			t.Errorf("%d of batch in the first second of the outage", n)
		}
		if n := r.admitted(t, "/batch"); !near(n, 50, 2) {
			t.Errorf("%d of batch while the breaker is open", n)
		}
		d = r.decide(t, "/batch")
		for d.Allowed {
			d = r.decide(t, "/batch")
		}
		if d.Rule != "batch" || d.Limit != 50 || d.RetryAfter <= 0 || d.RetryAfter > 20*time.Millisecond || d.Unavailable() {
			t.Errorf("%+v", d)
		}
		time.Sleep(3 * time.Second)
		trials := 0
		for range 10 {
			if r.decide(t, "/db/x").Allowed {
				trials++
			}
		}
		if trials != 2 {
			t.Errorf("%d trials", trials)
		}
		if n := r.admitted(t, "/batch"); !near(n, 100, 3) { // of which 50 had gathered
			t.Errorf("%d of batch while the breaker is half-open", n)
		}
		time.Sleep(time.Millisecond)
		r.record(t, 2, downstream.Succeeded)
		last := 0
		for second := range 10 {
			n := r.admitted(t, "/batch")
			if want := 50 + 5*second; n < last-1 || !near(n, want+2, 5) && second > 0 {
				t.Errorf("%d of batch in second %d of the ramp, %d in the one before", n, second, last)
			}
			last = n
		}
		if n := r.admitted(t, "/batch"); !near(n, 200, 3) { // the shared bucket has filled meanwhile
			t.Errorf("%d of batch after the ramp", n)
		}
		if !r.decide(t, "/db/x").Allowed {
			t.Error("the database is still kept from")
		}
		r.guard.Status()
		var states []string
		for _, c := range changes {
			states = append(states, strings.Split(c, " after")[0])
		}
		want := []string{"database: closed → open", "database: open → half-open", "database: half-open → ramping", "database: ramping → closed"}
		if !slices.Equal(states, want) {
			t.Errorf("%q", changes)
		}
	})
}

// One replica's breaker leaves the shared limit as it is, for the others; and it tightens to a part of its own share.
func TestSharedLimitStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one := open(t, store, file, &Config{Share: func(string) float64 { return 0.5 }})
		other := open(t, store, file, nil)
		time.Sleep(time.Second)
		one.trip(t)
		one.admitted(t, "/batch") // its local bucket was full
		time.Sleep(2 * time.Second)
		a, b := 0, 0
		for range 1000 {
			if one.decide(t, "/batch").Allowed {
				a++
			}
			if other.decide(t, "/batch").Allowed {
				b++
			}
			time.Sleep(time.Millisecond)
		}
		if !near(a, 50, 3) || !near(a+b, 200, 3) { // burst 25 and 25/s of the one, burst 100 and 100/s of both
			t.Errorf("%d of the replica in trouble, %d of the other", a, b)
		}
	})
}

// What is tightened to nothing is refused outright, and so are rules of several links by the lowest.
func TestShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newStore(t), `
version: 1
rules:
  - {name: a, match: {path: /a}, limit: 100/s, breaker: {failure_ratio: 50%, minimum_calls: 10, ramp: 0s}}
  - {name: b, match: {path: /b}, limit: 100/s, breaker: {failure_ratio: 50%, minimum_calls: 10}}
  - {name: both, match: {path: /both}, limit: 100/s burst 100, tighten: [{breaker: a, to: 50%}, {breaker: b, to: 0%}]}
  - {name: permits, limit: 10 concurrent, key: [user], match: {path: /p}, tighten: {breaker: b, to: 0%}}
  - {name: shadow, match: {path: /s}, limit: 100/s burst 100, tighten: {breaker: b, to: 0%}, shadow: true}
`, nil)
		time.Sleep(time.Second)
		fail := func(rule string) {
			for range 10 {
				_ = r.guard.Record(rule, 0, downstream.Failed)
			}
		}
		fail("a")
		if n := r.admitted(t, "/both"); !near(n, 100, 3) {
			t.Errorf("%d at a half", n)
		}
		fail("b")
		d := r.decide(t, "/both")
		if d.Allowed || !d.Unavailable() || d.Rule != "both" || d.RetryAfter != 5*time.Second {
			t.Errorf("%+v", d)
		}
		if h, err := r.Acquire(r.ctx, "permits", []string{"u"}, 1); err != nil || h.Decision.Allowed {
			t.Errorf("%+v, %v", h, err)
		}
		if d := r.decide(t, "/s"); !d.Allowed {
			t.Errorf("a rule in shadow: %+v", d)
		}
		if n := r.admitted(t, "/both"); n != 0 {
			t.Errorf("%d at nothing", n)
		}
	})
}

// Refusals of the limit trip a breaker; its own, and those of tightened rules, do not keep it open.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newStore(t), `
version: 1
rules:
  - name: api
    limit: 10/s burst 10
    breaker: {refusal_ratio: 60%, minimum_calls: 50, open_time: 2s, half_open_calls: 3, ramp: 0s}
`, nil)
		time.Sleep(time.Second)
		state := func() downstream.State { return r.guard.Status()[0].State }
		for range 49 {
			r.decide(t, "/")
		}
		if state() != downstream.Closed {
			t.Error("open after 49")
		}
		r.decide(t, "/")
		if state() != downstream.Open {
			t.Error("not open after 40 refusals of 50")
		}
		for range 1000 {
			if d := r.decide(t, "/"); d.Allowed || !d.Unavailable() {
				t.Fatalf("%+v", d)
			}
		}
		time.Sleep(2 * time.Second)
		for range 3 {
			if !r.decide(t, "/").Allowed {
				t.Error("a trial is refused")
			}
		}
		if state() != downstream.Closed {
			t.Errorf("%v after three takes that passed", state())
		}
	})
}

// A take that the store refuses gives back the trial and the local tokens that it was admitted with.
func TestRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newStore(t), `
version: 1
rules:
  - {name: database, match: {path: /db}, limit: unlimited, breaker: {failure_ratio: 50%, minimum_calls: 10, half_open_calls: 1}}
  - {name: linked, match: {path: /db}, limit: 1000/h burst 1000, tighten: {breaker: database, to: 1%}}
  - {name: tight, match: {path: /db}, key: [user], limit: 1/h}
`, nil)
		time.Sleep(time.Second)
		if !r.decide(t, "/db").Allowed {
			t.Fatal("the first take")
		}
		r.trip(t)
		time.Sleep(5 * time.Second)
		for n := range 50 { // five times the local bucket of linked, and one trial
			if d := r.decide(t, "/db"); d.Allowed || d.Rule != "tight" {
				t.Fatalf("take %d: %+v", n, d)
			}
		}
		for n, user := range []string{"a", "b"} {
			d, err := r.Decide(r.ctx, tidegate.AttributeMap{"path": "/db", "user": user}, 1)
			if err != nil || d.Allowed != (n == 0) {
				t.Errorf("user %s: %+v, %v", user, d, err)
			}
		}
	})
}

// A set that is swapped in keeps the breakers whose settings it does not change.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newStore(t), file, nil)
		time.Sleep(time.Second)
		use := func(text string) {
			t.Helper()
			set, err := rules.Parse("test.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.guard.Use(set); err != nil {
				t.Fatal(err)
			}
			r.Swap(set, time.Now())
		}
		r.trip(t)
		use(strings.Replace(file, "limit: 1000/s burst 1000", "limit: 500/s burst 500", 1))
		if d := r.decide(t, "/db/x"); d.Allowed {
			t.Error("the breaker was forgotten with a change of the limit")
		}
		use(strings.Replace(file, "open_time: 5s", "open_time: 6s", 1))
		if d := r.decide(t, "/db/x"); !d.Allowed {
			t.Errorf("the breaker goes on under other settings: %+v", d)
		}
		use("version: 1\nrules:\n  - {name: other, limit: 1/s}\n")
		var unknown *UnknownBreakerError
		if err := r.guard.Record("database", 0, downstream.Failed); !errors.As(err, &unknown) || len(r.guard.Status()) != 0 {
			t.Errorf("%v, %v", err, r.guard.Status())
		}
	})
}

func TestUnknownBreaker(t *testing.T) {
	r := open(t, newStore(t), file, nil)
	for rule, want := range map[string]string{
		"batch": `guard: the rule "batch" has no breaker: those that have are database`,
		"none":  `guard: the rule "none" has no breaker: those that have are database`,
	} {
		if err := r.guard.Record(rule, 0, downstream.Failed); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_ = r.guard.Close()
	if d := r.decide(t, "/db/x"); !d.Allowed {
		t.Errorf("a closed guard: %+v", d)
	}
}

// tracked counts what it is told.
type tracked int

func (c *tracked) Observe(string, string, int64, bool) { *c++ }

// While all is well, and while rules are tightened, a take allocates no more for the guard.
func TestAllocations(t *testing.T) {
	var seen tracked
	r := open(t, newStore(t), file, &Config{Tracker: &seen})
	attributes := tidegate.AttributeMap{"path": "/batch"}
	db := tidegate.AttributeMap{"path": "/db/x"}
	ask := func() {
		for _, a := range []tidegate.AttributeMap{attributes, db} {
			if _, err := r.Decide(r.ctx, a, 1); err != nil {
				t.Error(err)
			}
		}
	}
	if n := testing.AllocsPerRun(1000, ask); n > 0 && !raceDetector {
		t.Errorf("%v allocations while all is well", n)
	}
	if seen == 0 {
		t.Error("the next tracker is told nothing")
	}
	r.trip(t)
	if n := testing.AllocsPerRun(1000, ask); n > 0 && !raceDetector {
		t.Errorf("%v allocations while a rule is tightened", n)
	}
}
