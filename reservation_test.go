package tidegate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// RB-001: cancelling gives back all that was charged, whatever was reserved since, and nobody's start moves.
func TestCancelAmongLaterReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "10/s burst 20", nil)
		reserve := func(n int64, want time.Duration) *tidegate.Reservation {
			t.Helper()
			r := must(l.ReserveN(t.Context(), "k", n))(t)
			if !r.OK() || r.Delay() != want {
				t.Errorf("reserving %d: %v, a delay of %v, want %v", n, r.OK(), r.Delay(), want)
			}
			return r
		}
		reserve(15, 0) // 5 left
		time.Sleep(100 * time.Millisecond)
		r1 := reserve(10, 400*time.Millisecond) // 6 - 10: four more to come
		time.Sleep(100 * time.Millisecond)
		r2 := reserve(2, 500*time.Millisecond) // -3 - 2

		if err := r1.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := passes(t, l); n != 5 {
			t.Errorf("%d pass after the cancel, want 5", n)
		}
		if r2.Delay() != 500*time.Millisecond {
			t.Errorf("the later reservation's delay is now %v", r2.Delay())
		}
		if err := r1.Cancel(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("the second cancel: %v", err)
		}
		if n := passes(t, l); n != 0 {
			t.Errorf("%d pass after the second cancel", n)
		}
	})
}

// A reservation whose time has come has no delay left, and can be cancelled as long as it can be settled.
func TestReservationOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/s burst 1", &tidegate.Config{SettleWithin: 10 * time.Second})
		allow(t, l, 1, true, 0)
		r := must(l.Reserve(t.Context(), "k"))(t)
		for _, want := range []time.Duration{time.Second, 600 * time.Millisecond, 200 * time.Millisecond, 0, 0} {
			if got := r.Delay(); got != want {
				t.Errorf("the delay is %v, want %v", got, want)
			}
			time.Sleep(400 * time.Millisecond)
		}
		if got := r.Decision().Delay; got != time.Second {
			t.Errorf("the decision's delay is %v", got)
		}
		time.Sleep(9 * time.Second) // 11 s after the reservation, 10 s after its start
		if err := r.Cancel(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("cancelled too late: %v", err)
		}
	})
}

// Settling charges the excess, into debt if need be, gives back the rest, and works once.
func TestSettle(t *testing.T) {
	for _, test := range []struct {
		reserved, cost int64
		remaining      int64         // after the settle
		reset          time.Duration // and the time to be full again
	}{
		{10, 10, 10, 10 * time.Second},
		{10, 3, 17, 3 * time.Second},
		{10, 0, 20, 0},
		{10, 15, 5, 15 * time.Second},
		{10, 20, 0, 20 * time.Second},
		{10, 50, 0, 50 * time.Second}, // into debt
	} {
		synctest.Test(t, func(t *testing.T) {
			store := open(t)
			l := newLimiter(t, store, "1/s burst 20", nil)
			r := must(l.ReserveN(t.Context(), "k", test.reserved))(t)
			if err := r.Settle(t.Context(), test.cost); err != nil {
				t.Fatal(err)
			}
			d := must(l.Peek(t.Context(), "k"))(t)
			if d.Remaining != test.remaining || d.ResetAfter != test.reset {
				t.Errorf("%d settled as %d: %+v, want %d left and %v", test.reserved, test.cost, d, test.remaining, test.reset)
			}
			for _, again := range []error{
				r.Settle(t.Context(), 0), r.Cancel(t.Context()), l.Settle(t.Context(), "k", r.ID(), 0), l.Cancel(t.Context(), "k", r.ID()),
			} {
				if !errors.Is(again, tidegate.ErrUnknownID) {
					t.Errorf("settled again: %v", again)
				}
			}
			if after := must(l.Peek(t.Context(), "k"))(t); after != d {
				t.Errorf("settled again: %+v, before it was %+v", after, d)
			}
		})
	}
}

// A reservation is settled by its key and id, from anywhere; not under another key, and not for less than nothing.
func TestSettleByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		here := newLimiter(t, store, "10/h", &tidegate.Config{Rule: "r"})
		there := newLimiter(t, store, "10/h", &tidegate.Config{Rule: "r"})
		other := newLimiter(t, store, "10/h", &tidegate.Config{Rule: "another"})
		r := must(here.ReserveN(t.Context(), "k", 8))(t)
		if n := len(r.ID()); n < 20 || n > 100 {
			t.Errorf("the id %q has %d bytes", r.ID(), n)
		}
		for name, err := range map[string]error{
			"another key":  there.Settle(t.Context(), "other", r.ID(), 1),
			"another rule": other.Settle(t.Context(), "k", r.ID(), 1),
			"another id":   there.Settle(t.Context(), "k", "x"+r.ID(), 1),
			"no id":        there.Settle(t.Context(), "k", "", 1),
		} {
			if !errors.Is(err, tidegate.ErrUnknownID) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := there.Settle(t.Context(), "k", r.ID(), -1); err == nil || errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("a cost of -1: %v", err)
		}
		allow(t, here, 0, true, 2)
		if err := there.Settle(t.Context(), "k", r.ID(), 1); err != nil {
			t.Fatal(err)
		}
		allow(t, here, 0, true, 9)
	})
}

// RB-114: what is given back goes into the window that was charged, or nowhere.
func TestSettleInTheWindowThatWasCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "5/s fixed-window", nil)
		late := must(l.ReserveN(t.Context(), "k", 5))(t)
		time.Sleep(1500 * time.Millisecond)
		allow(t, l, 2, true, 3)
		if err := late.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		allow(t, l, 0, true, 3)

		allow(t, l, 3, true, 0)
		next := must(l.ReserveN(t.Context(), "k", 4))(t) // in the window to come
		if next.Delay() != 500*time.Millisecond {
			t.Fatalf("the delay is %v", next.Delay())
		}
		time.Sleep(500 * time.Millisecond)
		allow(t, l, 0, true, 1)
		if err := next.Settle(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		allow(t, l, 0, true, 4)
	})
}

// A reservation that is never settled stays charged, and can be settled within its time.
func TestSettleWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/day burst 10", &tidegate.Config{SettleWithin: time.Minute})
		in := must(l.ReserveN(t.Context(), "k", 4))(t)
		out := must(l.ReserveN(t.Context(), "k", 4))(t)
		time.Sleep(time.Minute - time.Microsecond)
		if err := in.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Microsecond)
		if err := out.Cancel(t.Context()); !errors.Is(err, tidegate.ErrUnknownID) {
			t.Errorf("too late: %v", err)
		}
		allow(t, l, 0, true, 6)
	})
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "1/day burst 10", nil) // an hour by default
		r := must(l.ReserveN(t.Context(), "k", 4))(t)
		time.Sleep(time.Hour - time.Microsecond)
		if err := r.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Without a limit a reservation charges nothing, and there is nothing wrong with giving it back.
func TestReserveUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		l := newLimiter(t, store, "unlimited", nil)
		r := must(l.ReserveN(t.Context(), "k", 1<<40))(t)
		if !r.OK() || r.Delay() != 0 || r.ID() != "" {
			t.Errorf("ok %v, delay %v, id %q", r.OK(), r.Delay(), r.ID())
		}
		if err := r.Settle(t.Context(), 5); err != nil {
			t.Error(err)
		}
		if err := r.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
