package tidegate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// The view of a key does what the limiter does for that key.
func TestKeyLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		ctx := t.Context()
		limiter := newLimiter(t, store, "10/s burst 5", &tidegate.Config{Rule: "r"})
		k := limiter.Key("k")
		tokens := func(want int64) {
			t.Helper()
			if got := must(k.Tokens(ctx))(t); got != want {
				t.Errorf("%d tokens, want %d", got, want)
			}
		}
		if k.Burst() != 5 || k.Limit() != limiter.Limit() {
			t.Errorf("burst %d, limit %v", k.Burst(), k.Limit())
		}
		must(k.Allow(ctx))(t)
		tokens(4)
		must(k.AllowN(ctx, 2))(t)
		tokens(2)
		if r := must(k.Reserve(ctx))(t); !r.OK() {
			t.Error("not reserved")
		}
		tokens(1)
		r := must(k.ReserveN(ctx, 4))(t)
		if r.Delay() != 300*time.Millisecond {
			t.Errorf("the delay is %v", r.Delay())
		}
		if err := r.Cancel(ctx); err != nil {
			t.Error(err)
		}
		tokens(1)
		start := time.Now()
		if err := k.WaitN(ctx, 2); err != nil || time.Since(start) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := k.Wait(ctx); err != nil || time.Since(start) != 200*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if d := must(k.Peek(ctx))(t); d.Allowed || d.RetryAfter != 100*time.Millisecond {
			t.Errorf("%+v", d)
		}
		if err := k.Reset(ctx); err != nil {
			t.Error(err)
		}
		tokens(5)
		if err := k.SetLimit(ctx, tidegate.Limit{Rate: 10, Per: time.Second, Burst: 50}); err != nil || k.Burst() != 50 {
			t.Errorf("%v, burst %d", err, k.Burst())
		}
		if d := must(limiter.Peek(ctx, "another"))(t); d.Remaining != 50 {
			t.Errorf("another key: %+v", d)
		}
		permits := newLimiter(t, store, "1 concurrent", nil).Key("k")
		if p := must(permits.Acquire(ctx))(t); !p.OK() || p.Release(ctx) != nil {
			t.Errorf("%+v", p.Decision())
		}
	})
}
