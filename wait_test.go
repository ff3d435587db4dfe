package tidegate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Wait charges in one take and sleeps for exactly as long as the store says, whatever the algorithm.
func TestWaitSleepsExactly(t *testing.T) {
	for _, test := range []struct {
		limit string
		waits []time.Duration // how long each of a row of waits, one after the other, sleeps
	}{
		{"10/s burst 2", []time.Duration{0, 0, 100 * time.Millisecond, 100 * time.Millisecond}},
		{"3/s burst 1", []time.Duration{0, 333_334 * time.Microsecond, 333_333 * time.Microsecond, 333_333 * time.Microsecond}},
		{"1/1300ms", []time.Duration{0, 1300 * time.Millisecond, 1300 * time.Millisecond}},
		{"10/s leaky-bucket", []time.Duration{0, 100 * time.Millisecond, 100 * time.Millisecond}},
		{"10/s leaky-bucket queue 5", []time.Duration{0, 100 * time.Millisecond, 100 * time.Millisecond}},
		{"2/s fixed-window", []time.Duration{0, 0, time.Second, 0, time.Second}},
		{"2/day tz UTC", []time.Duration{0, 0, 24 * time.Hour, 0, 24 * time.Hour}},
		{"2/s sliding-window", []time.Duration{0, 0, 1500 * time.Millisecond}},
		{"unlimited", []time.Duration{0, 0, 0}},
	} {
		t.Run(test.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open(t)
				l := newLimiter(t, store, test.limit, &tidegate.Config{MaxWait: 48 * time.Hour})
				for i, want := range test.waits {
					start := time.Now()
					if err := l.Wait(t.Context(), "k"); err != nil {
						t.Fatalf("wait %d: %v", i, err)
					}
					if got := time.Since(start); got != want {
						t.Errorf("wait %d took %v, want %v", i, got, want)
					}
				}
				if store.takes != len(test.waits) || store.settles != 0 {
					t.Errorf("%d takes and %d settles for %d waits", store.takes, store.settles, len(test.waits))
				}
			})
		})
	}
}

// A wait for several tokens is as long as the last of them takes.
func TestWaitN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s burst 20", &tidegate.Config{MaxWait: time.Minute})
		allow(t, l, 15, true, 5)
		start := time.Now()
		if err := l.WaitN(t.Context(), "k", 12); err != nil || time.Since(start) != 700*time.Millisecond {
			t.Errorf("%v after %v, want 700ms", err, time.Since(start))
		}
		allow(t, l, 1, false, 0)
	})
}

// Callers that wait are served in the order in which they came, one every 100 ms.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s burst 1", &tidegate.Config{MaxWait: time.Minute})
		start := time.Now()
		var mu sync.Mutex
		var served []string
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := l.Wait(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprint(i, " ", time.Since(start)))
			})
			synctest.Wait() // until this one sleeps, or has been served
		}
		all.Wait()
		for i, got := range served {
			if want := fmt.Sprint(i, " ", time.Duration(i)*100*time.Millisecond); got != want {
				t.Errorf("served as number %d: %s, want %s", i, got, want)
			}
		}
		if len(served) != 50 || store.takes != 50 {
			t.Errorf("%d served with %d takes", len(served), store.takes)
		}
	})
}

// A caller that gives up during the sleep gives back what it was charged, once, and is told why.
func TestWaitGivesBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/s burst 1", &tidegate.Config{MaxWait: time.Minute})
		allow(t, l, 1, true, 0)

		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- l.Wait(ctx, "k") }()
		time.Sleep(300 * time.Millisecond)
		select {
		case err := <-result:
			t.Fatalf("no sleep: %v", err)
		default:
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if store.takes != 2 || store.settles != 1 {
			t.Errorf("%d takes and %d settles, want 2 and 1", store.takes, store.settles)
		}
		if d := must(l.Peek(t.Context(), "k"))(t); d.RetryAfter != 700*time.Millisecond || d.ResetAfter != 700*time.Millisecond {
			t.Errorf("after the refund: %+v, want a token in 700ms", d)
		}
		time.Sleep(700 * time.Millisecond)
		if n := passes(t, l); n != 1 {
			t.Errorf("%d pass, want 1", n)
		}
	})
}

// A wait that another one's giving up would have shortened is neither longer nor shorter for it; newcomers get the place.
func TestWaitersKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/s burst 1", &tidegate.Config{MaxWait: time.Minute})
		start := time.Now()
		allow(t, l, 1, true, 0)
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i, ctx := range []context.Context{first, t.Context()} {
			all.Go(func() {
				err := l.Wait(ctx, "k")
				if i == 1 && (err != nil || time.Since(start) != 2*time.Second) {
					t.Errorf("the second: %v after %v", err, time.Since(start))
				}
			})
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		r := must(l.Reserve(t.Context(), "k"))(t)
		if got := r.Delay(); got != 2*time.Second { // as if the first had never come: one taken, one waits, then this one
			t.Errorf("a newcomer's delay is %v, want 2s", got)
		}
		all.Wait()
	})
}

// RB-008: a wait that would be too long is refused at once, as a deadline, and charges nothing.
func TestWaitBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/s burst 1", nil)
		allow(t, l, 1, true, 0)

		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.Wait(ctx, "k")
		de, ok := errors.AsType[*tidegate.DeadlineError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tidegate.ErrNever) || errors.Is(err, tidegate.ErrStore) {
			t.Fatalf("the error is %v", err)
		}
		if de.Need != time.Second || de.Have != 100*time.Millisecond {
			t.Errorf("%v, want 1s where 100ms is left", de)
		}
		if time.Since(start) != 0 || ctx.Err() != nil {
			t.Errorf("it took %v", time.Since(start))
		}
		if store.settles != 0 {
			t.Errorf("%d settles: something was charged", store.settles)
		}
		time.Sleep(time.Second)
		if n := passes(t, l); n != 1 {
			t.Errorf("%d pass after a second, want 1: what was refused was charged", n)
		}

		// A deadline that is just long enough is long enough.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx, "k"); err != nil {
			t.Errorf("a wait of 1s with 1s left: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second-time.Microsecond)
		defer cancel()
		if err := l.Wait(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait of 1s with 1µs less: %v", err)
		}
	})
}

// A context that has ended already takes nothing.
func TestWaitWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/s burst 5", nil)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		expired, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := l.Wait(canceled, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		if err := l.Wait(expired, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("expired: %v", err)
		}
		if store.takes != 0 {
			t.Errorf("%d takes", store.takes)
		}
	})
}

// MaxWait bounds Wait and Reserve, by default to a period.
func TestMaxWait(t *testing.T) {
	for _, test := range []struct {
		limit   string
		maxWait time.Duration
		last    time.Duration // the longest delay that is accepted
		next    time.Duration // and the one that is not
	}{
		{"10/s burst 1", 250 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond},
		{"10/s burst 1", 300 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond},
		{"10/s burst 1", 0, time.Second, 1100 * time.Millisecond},
		{"60/h burst 1", 0, time.Hour, time.Hour + time.Minute},
		{"10/s leaky-bucket", 250 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond},
		{"10/s leaky-bucket", 0, 100 * time.Millisecond, 200 * time.Millisecond},
		{"3/s leaky-bucket", 0, 333_334 * time.Microsecond, 666_667 * time.Microsecond}, // rounded up to the tick
		{"10/s leaky-bucket queue 4", 0, 400 * time.Millisecond, 500 * time.Millisecond},
		{"10/s leaky-bucket queue 4", 200 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond},
		{"1/min fixed-window", 0, time.Minute, 2 * time.Minute}, // charges the next window, and none after it
		{"1/min fixed-window", time.Hour, time.Minute, 2 * time.Minute},
		{"1/month", 0, 31 * 24 * time.Hour, 60 * 24 * time.Hour}, // January and the leap February of the year 2000
	} {
		t.Run(test.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open(t)
				l := newLimiter(t, store, test.limit, &tidegate.Config{MaxWait: test.maxWait})
				last := time.Duration(-1)
				for range 1000 {
					r := must(l.Reserve(t.Context(), "k"))(t)
					if r.OK() {
						last = r.Delay()
						continue
					}
					if last != test.last || r.Decision().RetryAfter != test.next {
						t.Errorf("the last delay is %v, and the next would be %v; want %v and %v", last, r.Decision().RetryAfter, test.last, test.next)
					}
					if r.Delay() != tidegate.Never || r.ID() != "" || r.Cancel(t.Context()) != nil {
						t.Errorf("one that is not OK: delay %v, id %q", r.Delay(), r.ID())
					}
					return
				}
				t.Error("all are accepted")
			})
		})
	}
}

// What can never pass is told apart from what would take too long, and charges nothing.
func TestNever(t *testing.T) {
	for _, limit := range []string{
		"10/s burst 5", "10/s leaky-bucket queue 4", "5/min fixed-window", "5/day tz UTC", "5/min sliding-window", "none",
	} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open(t)
				l := newLimiter(t, store, limit, &tidegate.Config{MaxWait: 365 * 24 * time.Hour})
				start := time.Now()
				err := l.WaitN(t.Context(), "k", 6)
				if !errors.Is(err, tidegate.ErrNever) || errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				capacity := l.Limit().Capacity()
				if d := allow(t, l, 6, false, capacity); d.RetryAfter != tidegate.Never || d.Limit != capacity {
					t.Errorf("%+v", d)
				}
				r := must(l.ReserveN(t.Context(), "k", 1<<62))(t)
				if r.OK() || r.Delay() != tidegate.Never {
					t.Errorf("a reservation of 2^62: %v, %v", r.OK(), r.Delay())
				}
				if capacity > 0 {
					allow(t, l, capacity, true, 0)
				}
			})
		})
	}
}
