package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// deniedStore is a store on a virtual clock, which counts the commands that it sends.
func deniedStore(t *testing.T, url string) (s *Store, now *int64, sent *countingHook) {
	t.Helper()
	sent = &countingHook{}
	s = openCached(t, url, &Config{Prefix: t.Name() + ":", Hooks: []redis.Hook{sent}})
	now = new(int64)
	*now = base
	s.scripts, s.inject = newScripts(true), func() int64 { return *now }
	return s, now, sent
}

// What the server refused is refused without it until it can pass, and not a moment longer.
func TestDeniedCacheIsExact(t *testing.T) {
	srv := redistest.Start(t)
	for _, text := range []string{"10/s burst 3", "3/s burst 3", "3/s leaky-bucket queue 2", "3/s fixed-window"} {
		t.Run(text, func(t *testing.T) {
			s, now, sent := deniedStore(t, srv.URL())
			c := []tidegate.Charge{{Rule: "r", Key: "k", Limit: parseLimit(t, text), Cost: 1}}
			take := func() tidegate.Decision {
				t.Helper()
				ds, err := s.Take(context.Background(), c, nil)
				if err != nil {
					t.Fatal(err)
				}
				return ds[0]
			}
			for range 3 {
				if d := take(); !d.Allowed || d.Source != tidegate.SourceStore {
					t.Fatalf("%+v: want it allowed by the store", d)
				}
			}
			told := take()
			if told.Allowed || told.Source != tidegate.SourceStore {
				t.Fatalf("%+v: want it refused by the store", told)
			}
			before := sent.n.Load()
			for _, after := range []time.Duration{0, time.Microsecond, told.RetryAfter / 2, told.RetryAfter - time.Microsecond} {
				*now = base + int64(after/time.Microsecond)
				if after >= maxDenied {
					continue
				}
				d := take()
				if d.Allowed || d.Source != tidegate.SourceDeniedCache || d.RetryAfter != told.RetryAfter-after {
					t.Errorf("after %v: %+v: want it refused by the denied cache, to be tried again after %v", after, d, told.RetryAfter-after)
				}
			}
			if n := sent.n.Load(); n != before {
				t.Errorf("%d commands were sent for what was known", n-before)
			}
			*now = base + int64(told.RetryAfter/time.Microsecond)
			if d := take(); !d.Allowed {
				t.Errorf("at the time that was told: %+v", d)
			}
		})
	}
}

// A smaller cost, a reservation, another limit and whatever was refunded, reset or settled is asked of the server.
func TestDeniedCacheAsksWhatItDoesNotKnow(t *testing.T) {
	srv := redistest.Start(t)
	five, ten := parseLimit(t, "1/h burst 5"), parseLimit(t, "1/h burst 10")
	charge := func(cost int64) tidegate.Charge {
		return tidegate.Charge{Rule: "r", Key: "k", Limit: five, Cost: cost}
	}
	cases := []struct {
		name   string
		change func(t *testing.T, s *Store)
		charge tidegate.Charge
		want   tidegate.Source
		passes bool
	}{
		{"the same", nil, charge(3), tidegate.SourceDeniedCache, false},
		{"a larger cost", nil, charge(4), tidegate.SourceDeniedCache, false},
		{"a smaller cost", nil, charge(2), tidegate.SourceStore, true},
		{"a peek", nil, charge(0), tidegate.SourceStore, true},
		{"a shadow charge", nil, func() tidegate.Charge { c := charge(3); c.Shadow = true; return c }(), tidegate.SourceStore, false},
		{"a reservation", nil, func() tidegate.Charge { c := charge(3); c.MaxWait = 2 * time.Hour; return c }(), tidegate.SourceStore, true},
		{"another limit", nil, tidegate.Charge{Rule: "r", Key: "k", Limit: ten, Version: 1, Cost: 3}, tidegate.SourceStore, true},
		{"a refund", func(t *testing.T, s *Store) {
			t.Helper()
			if _, err := s.Take(context.Background(), []tidegate.Charge{charge(-1)}, nil); err != nil {
				t.Fatal(err)
			}
		}, charge(3), tidegate.SourceStore, true},
		{"a reset", func(t *testing.T, s *Store) {
			t.Helper()
			if err := s.Reset(context.Background(), []tidegate.Charge{charge(0)}); err != nil {
				t.Fatal(err)
			}
		}, charge(3), tidegate.SourceStore, true},
		{"a settle", func(t *testing.T, s *Store) {
			t.Helper()
			if err := s.Settle(context.Background(), "reserved", []tidegate.Charge{charge(0)}, 0); err != nil {
				t.Fatal(err)
			}
		}, charge(3), tidegate.SourceStore, true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, _, _ := deniedStore(t, srv.URL())
			take := func(c tidegate.Charge) tidegate.Decision {
				t.Helper()
				ds, err := s.Take(context.Background(), []tidegate.Charge{c}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return ds[0]
			}
			r := charge(2)
			r.ID, r.Hold = "reserved", time.Hour
			take(r)
			take(charge(1))
			if d := take(charge(3)); d.Allowed {
				t.Fatalf("%+v", d)
			}
			if tc.change != nil {
				tc.change(t, s)
			}
			if d := take(tc.charge); d.Source != tc.want || d.Allowed != tc.passes {
				t.Errorf("%+v: want it from %v, allowed %v", d, tc.want, tc.passes)
			}
		})
	}
}

// The cache is bounded, however many keys are refused.
func TestDeniedCacheIsBounded(t *testing.T) {
	srv := redistest.Start(t)
	s, _, _ := deniedStore(t, srv.URL())
	charge := &tidegate.Charge{Limit: parseLimit(t, "1/h burst 5"), Cost: 1}
	l, err := s.limits.of(charge)
	if err != nil {
		t.Fatal(err)
	}
	it := item{limit: l, charge: charge}
	for i := range 3 * deniedShards * deniedKeys {
		it.key = time.Duration(i).String()
		s.denied.note(&it, refusal{}, time.Second, 0)
	}
	n := 0
	for i := range s.denied.shards {
		n += len(s.denied.shards[i].keys)
	}
	if n == 0 || n > deniedShards*deniedKeys {
		t.Errorf("%d refusals are kept, at most %d may be", n, deniedShards*deniedKeys)
	}
}

// A server whose clock stepped back takes a bucket's time back when it is asked of it; what it said before is then off.
func TestDeniedCacheIsDroppedByALaterAnswer(t *testing.T) {
	srv := redistest.Start(t)
	s, now, _ := deniedStore(t, srv.URL())
	c := []tidegate.Charge{{Rule: "r", Key: "k", Limit: parseLimit(t, "10/day burst 1"), Cost: 1}}
	reserve := []tidegate.Charge{c[0]}
	reserve[0].ID, reserve[0].MaxWait = "id", time.Second // is not for the cache
	take := func(at int64, charges []tidegate.Charge) tidegate.Decision {
		t.Helper()
		*now = base + at
		ds, err := s.Take(context.Background(), charges, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ds[0]
	}
	take(1_000_000, c)
	told := take(1_000_000, c)
	if told.Allowed || told.Source != tidegate.SourceStore {
		t.Fatalf("%+v: want it refused by the store", told)
	}
	if d := take(100_000, reserve); d.Allowed {
		t.Fatalf("%+v: want it refused", d)
	}
	const passed = 1_000_500 - 100_000 // since the bucket's time was taken back
	if d := take(1_000_500, c); d.RetryAfter != told.RetryAfter-passed*time.Microsecond {
		t.Errorf("%+v: want to be told to wait for %v", d, told.RetryAfter-passed*time.Microsecond)
	}
}
