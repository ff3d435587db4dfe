package tidegate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "2 concurrent ttl 10s", nil)
		acquire := func(want bool) *tidegate.Permit {
			t.Helper()
			p := must(l.Acquire(t.Context(), "k"))(t)
			if p.OK() != want || (p.ID() != "") != want || p.Decision().Limit != 2 {
				t.Fatalf("ok %v, id %q, %+v", p.OK(), p.ID(), p.Decision())
			}
			return p
		}
		first := acquire(true)
		time.Sleep(4 * time.Second)
		second := acquire(true)
		refused := acquire(false)
		if d := refused.Decision(); d.RetryAfter != 6*time.Second { // when the first expires
			t.Errorf("%+v", d)
		}
		if refused.Release(t.Context()) != nil || refused.Renew(t.Context()) != nil {
			t.Error("a permit that was not given has nothing to give back")
		}

		if err := first.Renew(t.Context()); err != nil { // until 14 s
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second) // 13 s
		acquire(false)
		time.Sleep(time.Second) // 14 s: both have expired
		for _, p := range []*tidegate.Permit{first, second} {
			if err := p.Renew(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
				t.Errorf("renewed after it expired: %v", err)
			}
			if err := p.Release(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
				t.Errorf("released after it expired: %v", err)
			}
		}
		third := acquire(true)
		acquire(true)
		if err := third.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := third.Release(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("released twice: %v", err)
		}
		if err := l.Release(t.Context(), "k", "nobody's"); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("nobody's: %v", err)
		}
		acquire(true)
		acquire(false)
	})
}

// Permits of work that weighs more, held by one id.
func TestAcquireN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "5 concurrent", nil)
		heavy := must(l.AcquireN(t.Context(), "k", 3))(t)
		if p := must(l.AcquireN(t.Context(), "k", 3))(t); p.OK() {
			t.Error("6 of 5")
		}
		if p := must(l.AcquireN(t.Context(), "k", 6))(t); p.OK() || p.Decision().RetryAfter != tidegate.Never {
			t.Errorf("%+v", p.Decision())
		}
		if err := l.Renew(t.Context(), "k", heavy.ID()); err != nil {
			t.Error(err)
		}
		if err := l.Release(t.Context(), "k", heavy.ID()); err != nil {
			t.Error(err)
		}
		if p := must(l.AcquireN(t.Context(), "k", 5))(t); !p.OK() {
			t.Errorf("%+v", p.Decision())
		}
	})
}

// Permits where there is no limit, or where nothing may pass.
func TestAcquireWithoutPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		p := must(newLimiter(t, store, "unlimited", nil).Acquire(t.Context(), "k"))(t)
		if !p.OK() || p.ID() != "" || p.Renew(t.Context()) != nil || p.Release(t.Context()) != nil {
			t.Errorf("unlimited: %+v", p.Decision())
		}
		p = must(newLimiter(t, store, "none", nil).Acquire(t.Context(), "k"))(t)
		if p.OK() || p.Decision().RetryAfter != tidegate.Never {
			t.Errorf("none: %+v", p.Decision())
		}
	})
}
