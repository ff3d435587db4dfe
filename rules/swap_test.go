package rules

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

func one(limit string) string {
	return "version: 1\nrules:\n  - name: a\n    limit: " + limit + "\n"
}

// TestSwapKeepsWhatWasSpent: the share in use carries over, and rules that stay the same are not touched.
func TestSwapKeepsWhatWasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, nil, one("100/h")+"  - {name: b, limit: 1000/h}\n")
		for range 50 {
			decide(t, e, nil, 1)
			e.Swap(e.Set(), time.Now()) // the same: nothing changes for any bucket
		}
		b := e.current.Load().byName["b"]
		changes := e.Swap(mustParse(t, one("200/h")+"  - {name: b, match: {path: /x}, limit: 1000/h}\n"), time.Now())
		if len(changes) != 2 || changes[0].Rule != "a" || changes[1].Rule != "b" {
			t.Errorf("changes: %q", changes)
		}
		if d, err := e.TakeKey(context.Background(), "a", nil, 0); err != nil || d.Remaining != 100 || d.Limit != 200 {
			t.Errorf("got %+v, %v", d, err)
		}
		now := e.current.Load()
		if got := now.byName["b"]; got.version != b.version || got.plans[0].now.limit != b.plans[0].now.limit {
			t.Error("the limit of b is another, though it did not change")
		}
		if v := now.byName["a"].version; v != time.Now().UnixMicro() {
			t.Errorf("the version of a is %d, want now", v)
		}
		if e.Swap(nil, time.Now()) != nil || e.Set() != now.set {
			t.Error("a nil set changes something")
		}
	})
}

// TestVersionsGrow: a change counts even where its source's clock went back.
func TestVersionsGrow(t *testing.T) {
	at := time.UnixMicro(1_000_000)
	e := newEngine(t, &Config{At: at}, one("100/h"))
	decide(t, e, nil, 10)
	e.Swap(mustParse(t, one("10/h")), at.Add(-time.Second))
	if v := e.current.Load().byName["a"].version; v != 1_000_001 {
		t.Errorf("version %d, want 1000001", v)
	}
	if d := decide(t, e, nil, 0); d.Limit != 10 || d.Remaining != 9 {
		t.Errorf("got %+v", d)
	}
}

// TestUntil: a limit with an end gives way by itself, and what was spent before stays spent.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		e := newEngine(t, &Config{At: at}, one("10/day"))
		decide(t, e, nil, 10)
		if decide(t, e, nil, 1).Allowed {
			t.Fatal("the bucket is not empty")
		}
		end := at.Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
		e.Swap(mustParse(t, one("unlimited until "+end)+"    then: 10/day\n"), at.Add(time.Millisecond))
		for range 20 {
			if d := decide(t, e, nil, 1); !d.Allowed || d.Source != tidegate.SourceUnlimited {
				t.Fatalf("got %+v", d)
			}
		}
		time.Sleep(3*time.Second - time.Microsecond)
		if !decide(t, e, nil, 1).Allowed {
			t.Fatal("ended too early")
		}
		time.Sleep(time.Microsecond)
		if d := decide(t, e, nil, 1); d.Allowed || d.Limit != 10 {
			t.Fatalf("not ended: %+v", d)
		}
		// A replica that starts now, with the same file, decides the same.
		other, err := New(e.store, e.Set(), &Config{At: at.Add(time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		if d := decide(t, other, nil, 1); d.Allowed {
			t.Fatalf("got %+v", d)
		}
		if v, w := e.current.Load().rules[0].plans[0].then.version, other.current.Load().rules[0].plans[0].then.version; v != w || v != at.Add(3*time.Second).UnixMicro() {
			t.Errorf("versions %d and %d", v, w)
		}
	})
}

// TestUntilChangesABucket: where both limits have a bucket, the share in use carries over at the end.
func TestUntilChangesABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)
		e := newEngine(t, &Config{At: time.Now()}, one("1000/day until "+end)+"    then: 10/day\n")
		decide(t, e, nil, 500)
		time.Sleep(time.Minute)
		if d := decide(t, e, nil, 0); d.Limit != 10 || d.Remaining != 5 {
			t.Errorf("got %+v", d)
		}
		// And what is held is under the limit that counts.
		h, err := e.Reserve(context.Background(), "a", nil, 5)
		if err != nil || h.Decision.Limit != 10 || h.Decision.Remaining != 0 {
			t.Errorf("got %+v, %v", h, err)
		}
	})
}

// TestCalendar: a month turns over at local midnight of the first; days of a zone with daylight saving have 23 and 25 hours.
func TestCalendar(t *testing.T) {
	for _, c := range []struct {
		name, limit, start string
		length             time.Duration // from the start to the next window
	}{
		{"month", "3/month tz Asia/Shanghai", "2026-01-31T15:59:59Z", time.Second},
		{"whole month", "3/month tz Asia/Shanghai fixed-window", "2026-01-31T16:00:00Z", 28 * 24 * time.Hour},
		{"spring", "3/day tz Europe/Vienna", "2026-03-28T23:00:00Z", 23 * time.Hour},
		{"autumn", "3/day tz Europe/Vienna fixed-window", "2026-10-24T22:00:00Z", 25 * time.Hour},
		{"plain day", "3/day tz Europe/Vienna fixed-window", "2026-10-25T23:00:00Z", 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, err := time.Parse(time.RFC3339, c.start)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(start)) // virtual
				e := newEngine(t, nil, one(c.limit))
				for i := range 4 {
					if d := decide(t, e, nil, 1); d.Allowed != (i < 3) || i == 3 && d.RetryAfter != c.length {
						t.Fatalf("take %d: %+v, want a wait of %v", i, d, c.length)
					}
				}
				if c.length > 25*time.Hour {
					return // the wait has said it, and the store would sweep millions of times
				}
				time.Sleep(c.length - time.Microsecond)
				if decide(t, e, nil, 1).Allowed {
					t.Fatal("a new window too early")
				}
				time.Sleep(time.Microsecond)
				if d := decide(t, e, nil, 1); !d.Allowed || d.Remaining != 2 {
					t.Fatalf("no new window: %+v", d)
				}
			})
		})
	}
}

// TestSwapWhileTaking: no take fails, none is without rules, and each sees the whole of one set.
func TestSwapWhileTaking(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	sets := make([]*Set, 4)
	for i := range sets {
		sets[i] = mustParse(t, fmt.Sprintf("version: 1\nrules:\n  - {name: a, limit: %d/h}\n  - {name: b, limit: %d/h}\n", 1000+i, 1000+i))
	}
	e, err := New(store, sets[0], &Config{At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				ms, err := e.Match(attrs{}, 0, nil)
				if err == nil {
					_, err = e.Take(context.Background(), ms)
				}
				if err != nil || len(ms) != 2 || *ms[0].Charge.Limit != *ms[1].Charge.Limit {
					t.Errorf("got %v, %v", ms, err)
					return
				}
			}
		})
	}
	for i := range 200 {
		e.Swap(sets[i%len(sets)], time.Now())
	}
	done.Store(true)
	wg.Wait()
}

// TestEnforcedFor: a rule says of each key what the engine does with it.
func TestEnforcedFor(t *testing.T) {
	e := newEngine(t, nil, "version: 1\nrules:\n  - {name: half, key: [user], limit: 1/h, enforce: 50%}\n  - {name: all, key: [user], limit: 1/h}\n  - {name: none, key: [user], limit: 1/h, shadow: true}\n")
	enforced := map[string]int{}
	for i := range 1000 {
		matched, err := e.Match(attrs{"user": fmt.Sprint("u", i)}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range matched {
			is := m.Rule.EnforcedFor(m.Charge.Key)
			if is == m.Charge.Shadow {
				t.Errorf("%s, %q: enforced %v, and the charge is in shadow: %v", m.Rule.Name, m.Charge.Key, is, m.Charge.Shadow)
			}
			if is {
				enforced[m.Rule.Name]++
			}
		}
	}
	if n := enforced["half"]; n < 400 || n > 600 || enforced["all"] != 1000 || enforced["none"] != 0 {
		t.Errorf("enforced: %v", enforced)
	}
}
