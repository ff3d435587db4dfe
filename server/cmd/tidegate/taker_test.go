package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

func newTaker(t *testing.T, limit string) *taker {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { store.Close() })
	l, err := tidegate.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	return &taker{store: store, charge: tidegate.Charge{Rule: cliRule, Key: "k", Limit: &l, Version: 1, Cost: 1}}
}

// Paced takes admit the burst and all that refills, to the token, however many take at once.
func TestRepeatPacesByAbsoluteTimes(t *testing.T) {
	for _, workers := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			sum := newTaker(t, "600/s burst 100").repeat(t.Context(), 3000, workers, time.Millisecond)
			if sum.elapsed() != 2999*time.Millisecond {
				t.Errorf("3000 takes a millisecond apart took %v", sum.elapsed())
			}
			if want := 100 + 600*2999/1000; sum.allowed != want || sum.takes() != 3000 || sum.errors != 0 {
				t.Errorf("allowed %d of %d with %d errors, want %d", sum.allowed, sum.takes(), sum.errors, want)
			}
		})
	}
}

// slowStore answers every fifth take late.
type slowStore struct {
	tidegate.Store
	n int
}

func (s *slowStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if s.n++; s.n%5 == 0 {
		<-time.After(30 * time.Millisecond)
	}
	return s.Store.Take(ctx, charges, dst)
}

// A take that is late does not delay those after it.
func TestRepeatMakesUpForSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := newTaker(t, "10/s burst 1000")
		taker.store = &slowStore{Store: taker.store}
		sum := taker.repeat(t.Context(), 99, 1, 10*time.Millisecond)
		if sum.elapsed() != 980*time.Millisecond {
			t.Errorf("99 takes 10 ms apart took %v", sum.elapsed())
		}
	})
}

func TestRepeatStartsAllWorkersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := newTaker(t, "10/s burst 100").repeat(t.Context(), 1000, 1000, 0)
		if sum.allowed != 100 || sum.denied != 900 || sum.elapsed() != 0 {
			t.Errorf("allowed %d, denied %d in %v", sum.allowed, sum.denied, sum.elapsed())
		}
		if got := sum.result(); got.TakesPerSecond != 0 || got.Sources["store"] != 1000 {
			t.Errorf("a run without duration: %+v", got)
		}
	})
}

func TestRepeatStopsWhenInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 95*time.Millisecond)
		defer cancel()
		sum := newTaker(t, "10/s").repeat(ctx, 1000, 3, 10*time.Millisecond)
		if sum.takes() != 10 || sum.allowed != 10 {
			t.Errorf("%d takes, %d allowed in 95 ms", sum.takes(), sum.allowed)
		}
	})
}

func TestWaitReturnsAtTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := newTaker(t, "10/s burst 1")
		taker.wait = time.Minute
		start := time.Now()
		for i := range 5 {
			d, err := taker.take(t.Context())
			if took := time.Since(start); err != nil || !d.Allowed || took != time.Duration(i)*100*time.Millisecond {
				t.Errorf("take %d: %+v, %v after %v", i, d, err, took)
			}
		}
	})
}

func TestWaitIsDeniedWhereItIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := newTaker(t, "10/s burst 1")
		taker.wait = 50 * time.Millisecond
		start := time.Now()
		for _, want := range []bool{true, false, false} {
			if d, err := taker.take(t.Context()); err != nil || d.Allowed != want {
				t.Errorf("%+v, %v; want allowed %v", d, err, want)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("an answer at once took %v", took)
		}
	})
}

// A wait that is interrupted gives its charge back.
func TestInterruptedWaitRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := newTaker(t, "1/h burst 1")
		taker.wait = 24 * time.Hour
		if _, err := taker.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if d, err := taker.take(ctx); !errors.Is(err, errInterrupted) {
			t.Errorf("%+v, %v", d, err)
		}
		taker.wait = 0
		if d, err := taker.take(t.Context()); err != nil || d.RetryAfter != 59*time.Minute {
			t.Errorf("%+v, %v: the bucket should be full in 59m", d, err)
		}
	})
}
