package tidegate_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// recorder is a store that counts what is asked of it.
type recorder struct {
	tidegate.Store

	mu             sync.Mutex
	takes, settles int
}

func (r *recorder) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	r.mu.Lock()
	r.takes++
	r.mu.Unlock()
	return r.Store.Take(ctx, charges, dst)
}

func (r *recorder) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	r.mu.Lock()
	r.settles++
	r.mu.Unlock()
	return r.Store.Settle(ctx, id, charges, cost)
}

// open opens a store in virtual time, which begins at midnight and passes only in time.Sleep, where it takes no time.
func open(t *testing.T) *recorder {
	t.Helper()
	store := &recorder{Store: memstore.New(nil)}
	t.Cleanup(func() { store.Close() })
	return store
}

func newLimiter(t *testing.T, store tidegate.Store, limit string, cfg *tidegate.Config) *tidegate.Limiter {
	t.Helper()
	l, err := tidegate.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := tidegate.New(store, l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// must returns the first value, and fails the test with the second.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// allow takes n of the key k and holds whether that passes and what remains to what is wanted.
func allow(t *testing.T, l *tidegate.Limiter, n int64, want bool, remaining int64) tidegate.Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), "k", n)
	if err != nil {
		t.Fatal(err)
	}
	if d.Allowed != want || d.Remaining != remaining {
		t.Errorf("a take of %d: allowed %v with %d left, want %v with %d (%+v)", n, d.Allowed, d.Remaining, want, remaining, d)
	}
	return d
}

// passes counts how many takes of 1 pass at this moment.
func passes(t *testing.T, l *tidegate.Limiter) int {
	t.Helper()
	for n := range 100_000 {
		if d := must(l.Allow(t.Context(), "k"))(t); !d.Allowed {
			return n
		}
	}
	t.Fatal("everything passes")
	return 0
}

func TestNew(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	good := tidegate.Limit{Rate: 10, Per: time.Second}
	for _, test := range []struct {
		name  string
		store tidegate.Store
		limit tidegate.Limit
		cfg   *tidegate.Config
		want  string
	}{
		{"no config", store, good, nil, ""},
		{"the zero config", store, good, &tidegate.Config{}, ""},
		{"no store", nil, good, nil, "the store is nil"},
		{"the zero limit", store, tidegate.Limit{}, nil, "the rate is 0"},
		{"negative MaxWait", store, good, &tidegate.Config{MaxWait: -1}, "MaxWait -1ns"},
		{"negative SettleWithin", store, good, &tidegate.Config{SettleWithin: -1}, "SettleWithin -1ns"},
		{"negative share", store, good, &tidegate.Config{OnStoreFailure: tidegate.FailurePolicy{Share: -0.1}}, "Share -0.1"},
		{"a share above 1", store, good, &tidegate.Config{OnStoreFailure: tidegate.FailurePolicy{Share: 1.1}}, "Share 1.1"},
	} {
		l, err := tidegate.New(test.store, test.limit, test.cfg)
		switch {
		case test.want == "" && (err != nil || l == nil):
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || l != nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// Two limiters of different limits on one store have buckets of their own; a name makes them share.
func TestRuleNamesTheBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		hourly, minutely := newLimiter(t, store, "30/h", nil), newLimiter(t, store, "10/min", nil)
		if got := hourly.Rule(); got != "30/h" {
			t.Errorf("the rule is %q", got)
		}
		for n := range int64(10) { // RB-078: one store, ten takes each, 300 ms apart
			allow(t, hourly, 1, true, 29-n)
			allow(t, minutely, 1, true, 9-n+n*3/60)
			time.Sleep(300 * time.Millisecond)
		}

		a := newLimiter(t, store, "10/h", &tidegate.Config{Rule: "shared"})
		b := newLimiter(t, store, "10/h", &tidegate.Config{Rule: "shared"})
		allow(t, a, 4, true, 6)
		allow(t, b, 4, true, 2)
		if d := allow(t, a, 4, false, 2); d.Rule != "shared" {
			t.Errorf("the rule is %q", d.Rule)
		}
	})
}

// RB-005: whoever comes back exactly when told passes, every time; a tick earlier, nobody does.
func TestRetryAfterIsExact(t *testing.T) {
	for _, limit := range []string{
		"1/1300ms", "3/s burst 1", "7/s burst 1", "1001/s burst 1", "999/s burst 1", "13/h burst 1", "10007/day burst 1",
		"11/18250day", "7/s leaky-bucket", "3/min sliding-window", "3/min sliding-log", "3/min fixed-window",
		"17/min sliding-window slices 5", "100/s burst 1 warmup 800ms",
	} {
		t.Run(limit, func(t *testing.T) {
			now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			store := memstore.New(&memstore.Config{Now: func() time.Time { return now }})
			defer store.Close()
			l := newLimiter(t, store, limit, nil)
			tick := must(l.Limit().Resolution())(t)
			for i := range 10_000 {
				d := must(l.Allow(t.Context(), "k"))(t)
				if !d.Allowed && i > 0 {
					t.Fatalf("take %d comes when it was told and is refused: %+v", i, d)
				}
				if !d.Allowed {
					now = now.Add(d.RetryAfter) // a cold bucket, which begins empty
					continue
				}
				d = must(l.Peek(t.Context(), "k"))(t)
				if d.Allowed {
					continue
				}
				if d.RetryAfter <= 0 || d.RetryAfter == tidegate.Never {
					t.Fatalf("take %d: retry after %v", i, d.RetryAfter)
				}
				now = now.Add(d.RetryAfter - tick)
				if early := must(l.Peek(t.Context(), "k"))(t); early.Allowed {
					t.Fatalf("take %d: %+v, but it passes a tick of %v earlier", i, d, tick)
				}
				now = now.Add(tick)
			}
		})
	}
}

// RB-004: nothing comes back under the limit none; what is spent before it is still spent after it.
func TestNoneBetweenLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "none", &tidegate.Config{Rule: "r"})
		for range 2 {
			if d := allow(t, l, 1, false, 0); d.RetryAfter != tidegate.Never || d.ResetAfter != tidegate.Never || d.Limit != 0 {
				t.Errorf("%+v", d)
			}
			time.Sleep(10 * time.Second)
		}
		if err := l.Wait(t.Context(), "k"); !errors.Is(err, tidegate.ErrNever) {
			t.Errorf("%v", err)
		}
		if err := l.SetLimit(t.Context(), limit("1/min burst 5", func(*tidegate.Limit) {})); err != nil {
			t.Fatal(err)
		}
		if n := passes(t, l); n != 5 { // a first sight is full
			t.Errorf("%d pass, want 5", n)
		}
		if err := l.SetLimit(t.Context(), tidegate.Limit{Algorithm: tidegate.None}); err != nil {
			t.Fatal(err)
		}
		allow(t, l, 1, false, 0)
		if err := l.SetLimit(t.Context(), limit("1/min burst 5", func(*tidegate.Limit) {})); err != nil {
			t.Fatal(err)
		}
		allow(t, l, 1, false, 0)
	})
}

// RB-010: a change of limit is one step: rate and burst change together, the share in use carries over, and time before
// the change counts at the old rate.
func TestSetLimit(t *testing.T) {
	set := func(t *testing.T, l *tidegate.Limiter, text string) {
		t.Helper()
		if err := l.SetLimit(t.Context(), limit(text, func(*tidegate.Limit) {})); err != nil {
			t.Fatal(err)
		}
		if got := l.Limit().String(); got != text {
			t.Errorf("the limit is %s, want %s", got, text)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s", &tidegate.Config{Rule: "raised"})
		allow(t, l, 10, true, 0)
		allow(t, l, -10, true, 10)
		set(t, l, "1000/s")
		time.Sleep(100 * time.Millisecond)
		for range 200 {
			if d := must(l.Allow(t.Context(), "k"))(t); !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		set(t, l, "1/s") // 200 of 1000 in use: a fifth of 1
		allow(t, l, 1, false, 0)
		time.Sleep(200 * time.Millisecond)
		allow(t, l, 1, true, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s", &tidegate.Config{Rule: "in between"})
		allow(t, l, 10, true, 0)
		time.Sleep(500 * time.Millisecond) // five came back at the old rate
		set(t, l, "1000/s burst 100")      // half of 10 becomes half of 100
		allow(t, l, 1, true, 49)
		time.Sleep(20 * time.Millisecond) // and now twenty come
		allow(t, l, 1, true, 68)
		set(t, l, "1000/s burst 200")
		allow(t, l, 1, true, 135)
		set(t, l, "1000/s burst 400") // at the same moment: the later one is newer
		allow(t, l, 1, true, 269)
	})
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s", &tidegate.Config{Rule: "untouched"})
		allow(t, l, 10, true, 0)
		set(t, l, "1/s") // the bucket hears of it when it is asked next, and counts from when it was said
		time.Sleep(500 * time.Millisecond)
		if d := allow(t, l, 1, false, 0); d.RetryAfter != 500*time.Millisecond {
			t.Errorf("retry after %v, want 500ms", d.RetryAfter)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s burst 1", &tidegate.Config{Rule: "reserved"})
		allow(t, l, 1, true, 0)
		r := must(l.Reserve(t.Context(), "k"))(t)
		set(t, l, "1/h")
		if r.Delay() != 100*time.Millisecond {
			t.Errorf("the reservation's delay is now %v", r.Delay())
		}
	})
}

// A bad limit leaves the old one at work.
func TestSetLimitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s", nil)
		err := l.SetLimit(t.Context(), tidegate.Limit{Rate: -1, Per: time.Second})
		if _, ok := errors.AsType[*tidegate.LimitError](err); !ok {
			t.Errorf("the error is %v", err)
		}
		if got := l.Limit().String(); got != "10/s" {
			t.Errorf("the limit is now %s", got)
		}
		allow(t, l, 1, true, 9)
		store.Close()
		if err := l.SetLimit(t.Context(), tidegate.Limit{Rate: 1, Per: time.Second}); !errors.Is(err, tidegate.ErrClosed) {
			t.Errorf("the store is closed: %v", err)
		}
		if got := l.Limit().String(); got != "10/s" {
			t.Errorf("the limit is now %s", got)
		}
	})
}

// A leaky bucket spaces takes evenly: each decision says when its take may start, until the queue is full.
func TestLeakyBucketDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s leaky-bucket queue 4", nil)
		for i := range int64(5) {
			if d := allow(t, l, 1, true, 4-i); d.Delay != time.Duration(i)*100*time.Millisecond {
				t.Errorf("the delay of number %d is %v", i, d.Delay)
			}
		}
		if d := allow(t, l, 1, false, 0); d.RetryAfter != 100*time.Millisecond || d.Delay != 0 || d.Limit != 5 {
			t.Errorf("the queue is full: %+v", d)
		}
		time.Sleep(100 * time.Millisecond)
		if d := allow(t, l, 1, true, 0); d.Delay != 400*time.Millisecond {
			t.Errorf("100ms later the delay is %v", d.Delay)
		}
		time.Sleep(time.Second)
		if d := allow(t, l, 1, true, 4); d.Delay != 0 {
			t.Errorf("after a rest the delay is %v", d.Delay)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s leaky-bucket", nil)
		allow(t, l, 1, true, 0)
		if d := allow(t, l, 1, false, 0); d.RetryAfter != 100*time.Millisecond {
			t.Errorf("without a queue: %+v", d)
		}
	})
}

// What an algorithm cannot do is an error of its own, before anything is charged.
func TestUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		ctx := t.Context()
		permits, log := newLimiter(t, store, "5 concurrent", nil), newLimiter(t, store, "5/s sliding-log", nil)
		bucket := newLimiter(t, store, "5/s", nil)
		second := func(_ any, err error) error { return err }
		for name, err := range map[string]error{
			"Allow on permits":          second(permits.Allow(ctx, "k")),
			"a refund on permits":       second(permits.AllowN(ctx, "k", -1)),
			"Reserve on permits":        second(permits.Reserve(ctx, "k")),
			"Wait on permits":           permits.Wait(ctx, "k"),
			"Reserve on a sliding log":  second(log.Reserve(ctx, "k")),
			"Wait on a sliding log":     log.Wait(ctx, "k"),
			"Acquire on a token bucket": second(bucket.Acquire(ctx, "k")),
			"Acquire on a sliding log":  second(log.Acquire(ctx, "k")),
		} {
			if !errors.Is(err, tidegate.ErrUnsupported) || errors.Is(err, tidegate.ErrStore) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, l := range []*tidegate.Limiter{permits, log, bucket} {
			allow(t, l, 0, true, 5)
		}
	})
}

// A closed store cannot decide, and every verb says so.
func TestClosedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		ctx := t.Context()
		bucket, permits := newLimiter(t, store, "5/s", nil), newLimiter(t, store, "5 concurrent", nil)
		r := must(bucket.Reserve(ctx, "k"))(t)
		p := must(permits.Acquire(ctx, "k"))(t)
		store.Close()
		second := func(_ any, err error) error { return err }
		for name, err := range map[string]error{
			"Allow":   second(bucket.Allow(ctx, "k")),
			"Peek":    second(bucket.Peek(ctx, "k")),
			"Reserve": second(bucket.Reserve(ctx, "k")),
			"Wait":    bucket.Wait(ctx, "k"),
			"Decide":  second(bucket.Decide(ctx, tidegate.AttributeMap{"ip": "::1"}, 1)),
			"Tokens":  second(bucket.Key("k").Tokens(ctx)),
			"Acquire": second(permits.Acquire(ctx, "k")),
			"Cancel":  r.Cancel(ctx),
			"Settle":  r.Settle(ctx, 3),
			"Renew":   p.Renew(ctx),
			"Release": p.Release(ctx),
			"Reset":   bucket.Reset(ctx, "k"),
		} {
			if !errors.Is(err, tidegate.ErrStore) || !errors.Is(err, tidegate.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
			if se, ok := errors.AsType[*tidegate.StoreError](err); !ok || se.Op == "" {
				t.Errorf("%s: %#v", name, err)
			}
		}
	})
}

// Reset makes a bucket as good as new, and no other.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "5/h", nil)
		allow(t, l, 5, true, 0)
		other := must(l.AllowN(t.Context(), "other", 5))(t)
		if err := l.Reset(t.Context(), "k"); err != nil || !other.Allowed {
			t.Fatal(err)
		}
		allow(t, l, 0, true, 5)
		if d := must(l.Peek(t.Context(), "other"))(t); d.Remaining != 0 {
			t.Errorf("the other bucket: %+v", d)
		}
	})
}

// RB-049: a refund never lifts a bucket above its capacity.
func TestRefundIsBounded(t *testing.T) {
	for _, limit := range []string{"2/h", "2/h leaky-bucket queue 1", "2/h fixed-window", "2/h sliding-window", "2/h sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open(t)
				l := newLimiter(t, store, limit, nil)
				allow(t, l, -1, true, 2)
				allow(t, l, -1<<62, true, 2)
				allow(t, l, 2, true, 0)
				allow(t, l, -1, true, 1)
				allow(t, l, -5, true, 2)
				if n := passes(t, l); n != 2 {
					t.Errorf("%d pass, want 2", n)
				}
			})
		})
	}
}

// Decide takes the key from the attribute that the config names.
func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		byIP := newLimiter(t, store, "5/h", nil)
		for i, request := range []tidegate.AttributeMap{{"ip": "192.0.2.1"}, {"ip": "192.0.2.1", "user": "x"}, {"ip": ""}, {"user": "x"}, nil} {
			d := must(byIP.Decide(t.Context(), request, 2))(t)
			want := []int64{3, 1, 3, tidegate.NoLimit, tidegate.NoLimit}[i] // an empty value is a value, a missing one is not
			if !d.Allowed || d.Remaining != want {
				t.Errorf("%v: %+v, want %d left", request, d, want)
			}
			if missing := i > 2; missing != (d.Source == tidegate.SourceUnlimited && d.Rule == "") {
				t.Errorf("%v: %+v", request, d)
			}
		}
	})
}

// A thousand callers at the same moment: exactly the burst passes.
func TestConcurrentTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s burst 100", nil)
		var passed, refused sync.Map
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				d, err := l.Allow(t.Context(), "k")
				switch {
				case err != nil:
					t.Error(err)
				case d.Allowed:
					if other, twice := passed.LoadOrStore(d.Remaining, i); twice {
						t.Errorf("callers %d and %v both have %d left", i, other, d.Remaining)
					}
				default:
					refused.Store(i, true)
				}
			})
		}
		all.Wait()
		count := func(m *sync.Map) (n int) {
			m.Range(func(any, any) bool { n++; return true })
			return n
		}
		if count(&passed) != 100 || count(&refused) != 900 {
			t.Errorf("%d pass and %d do not", count(&passed), count(&refused))
		}
	})
}
