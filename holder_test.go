package tidegate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// hold holds by the key "a", and wants no error.
func hold(t *testing.T, l *tidegate.Limiter, terms tidegate.Terms) (tidegate.Decision, tidegate.Hold) {
	t.Helper()
	d, h, err := l.HoldFor(t.Context(), tidegate.AttributeMap{"ip": "a"}, terms)
	if err != nil {
		t.Fatal(err)
	}
	return d, h
}

func peekA(t *testing.T, l *tidegate.Limiter) int64 {
	t.Helper()
	return must(l.Peek(t.Context(), "a"))(t).Remaining
}

// What is held of each kind of limit, on which terms, and what comes back of it.
func TestHoldFor(t *testing.T) {
	plain := tidegate.Terms{Cost: 2}
	later := tidegate.Terms{Cost: 2, MaxWait: time.Hour}
	counted := tidegate.Terms{Cost: 2, CancelWithin: time.Hour}
	part := tidegate.Terms{Cost: 2, NoPermits: true}
	for _, c := range []struct {
		limit string
		terms tidegate.Terms
		holds bool
		ttl   time.Duration
	}{
		{"9/h", plain, false, 0}, {"9/h", later, false, 0}, {"9/h", counted, true, 0}, {"9/h", part, false, 0},
		{"9/h fixed-window", plain, false, 0}, {"9/h fixed-window", counted, true, 0},
		{"9/h sliding-window", counted, true, 0},
		{"9/h sliding-log", plain, false, 0}, {"9/h sliding-log", later, false, 0},
		{"9/h leaky-bucket queue 8", tidegate.Terms{Cost: 1}, false, 0}, // nothing delays it
		{"9/h leaky-bucket queue 8", counted, true, 0},
		{"9 concurrent", plain, true, time.Minute}, {"9 concurrent ttl 3s", later, true, 3 * time.Second},
		{"9 concurrent", counted, true, time.Minute}, {"9 concurrent", part, false, 0},
		{"unlimited", counted, false, 0},
		{"9/h", tidegate.Terms{}, false, 0}, {"9 concurrent", tidegate.Terms{}, false, 0}, // a peek
	} {
		l := newLimiter(t, open(t), c.limit, nil)
		before := peekA(t, l)
		d, h := hold(t, l, c.terms)
		if !d.Allowed || (h != nil) != c.holds {
			t.Errorf("%s, %+v: %+v, %v", c.limit, c.terms, d, h)
			continue
		}
		if h == nil {
			continue
		}
		if h.TTL() != c.ttl {
			t.Errorf("%s: TTL %v, want %v", c.limit, h.TTL(), c.ttl)
		}
		if err := h.Renew(t.Context()); err != nil {
			t.Errorf("%s: renewed: %v", c.limit, err)
		}
		if got := peekA(t, l); got != before-2 {
			t.Errorf("%s: %d left of %d", c.limit, got, before)
		}
		if err := h.Cancel(t.Context()); err != nil {
			t.Errorf("%s: cancelled: %v", c.limit, err)
		}
		if got := peekA(t, l); got != before {
			t.Errorf("%s: %d left after a cancel, want %d", c.limit, got, before)
		}
		if err := h.Release(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("%s: released after that: %v", c.limit, err)
		}
		_, h = hold(t, l, c.terms)
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("%s: released: %v", c.limit, err)
		}
		want := before - 2
		if c.ttl > 0 {
			want = before
		}
		if got := peekA(t, l); got != want {
			t.Errorf("%s: %d left after a release, want %d", c.limit, got, want)
		}
	}
}

// What waits for a turn can be cancelled until it comes.
func TestHoldForATurn(t *testing.T) {
	for limit, terms := range map[string]tidegate.Terms{
		"1/s":                      {Cost: 1, MaxWait: time.Minute},
		"1/s leaky-bucket queue 5": {Cost: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, open(t), limit, nil)
			hold(t, l, terms)
			d, h := hold(t, l, terms)
			if d.Delay != time.Second || h == nil {
				t.Fatalf("%s: %+v %v", limit, d, h)
			}
			if err := h.Cancel(t.Context()); err != nil {
				t.Error(err)
			}
			if d, _ := hold(t, l, terms); d.Delay != time.Second {
				t.Errorf("%s: the next is delayed by %v", limit, d.Delay)
			}
		})
	}
}

// A sliding log gives nothing back; a request without the attribute is not the limit's; a refusal holds nothing.
func TestHoldForNothing(t *testing.T) {
	l := newLimiter(t, open(t), "1/h sliding-log", nil)
	terms := tidegate.Terms{Cost: 1, CancelWithin: time.Hour}
	if _, _, err := l.HoldFor(t.Context(), tidegate.AttributeMap{"ip": "a"}, terms); !errors.Is(err, tidegate.ErrUnsupported) {
		t.Error(err)
	}
	if d, h, err := l.HoldFor(t.Context(), tidegate.AttributeMap{}, terms); !d.Allowed || h != nil || err != nil {
		t.Errorf("%+v %v %v", d, h, err)
	}
	l = newLimiter(t, open(t), "1 concurrent", nil)
	hold(t, l, terms)
	if d, h := hold(t, l, terms); d.Allowed || h != nil {
		t.Errorf("%+v %v", d, h)
	}
}

// A limiter tells its limit to decisions of its rule, and to no others.
func TestLimitOf(t *testing.T) {
	l := newLimiter(t, open(t), "10/s burst 20", &tidegate.Config{Rule: "api"})
	if got := l.LimitOf("api", 20); got == nil || *got != l.Limit() {
		t.Errorf("%v", got)
	}
	if got := l.LimitOf("other", 20); got != nil {
		t.Errorf("%v", got)
	}
}
