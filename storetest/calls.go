package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleError  = "an error means that there is no decision, and charges nothing"
	ruleClosed = "calls after Close are a StoreError that is ErrClosed"
	ruleResets = "Reset makes the buckets of the charges as good as new, and no others"
	ruleGone   = "a call whose context has ended returns the context's error and charges nothing" // RB-089
)

func callCases() []testCase {
	cases := []testCase{
		{"no charges", "a take of no charges is no error and no decision", noCharges},
		{"append", "Take appends to dst and leaves alone what is there", appends},
		{"denial is no error", "a denial is a decision, not an error", denialIsNoError}, // RB-081
		{"invalid limit", ruleError, invalidLimit},
		{"no limit", ruleError, noLimit},
		{"context cancelled", ruleGone, contextCancelled},
		{"context too late", ruleGone, contextLate},
		{"closed", ruleClosed, closed},
		{"closed twice", "Close can be called twice", closedTwice},
		{"reset", ruleResets, resets},
		{"reset of nothing", ruleResets, resetNothing},
		{"now", "Now is the clock by which the store decides", nowIsTheClock},
		{"charges are not changed", "Take does not change the charges", chargesUnchanged},
	}
	return append(cases, forEach("reset", ruleResets, resetEach)...)
}

func (x *trial) reset(buckets ...*bucket) {
	x.Helper()
	charges := make([]tidegate.Charge, len(buckets))
	for i, b := range buckets {
		charges[i] = b.charge
	}
	if err := x.store.Reset(x.Context(), charges); err != nil {
		x.Errorf("reset: %v", err)
	}
}

func noCharges(x *trial) {
	for _, charges := range [][]tidegate.Charge{nil, {}} {
		if ds, err := x.store.Take(x.Context(), charges, nil); err != nil || len(ds) != 0 {
			x.Errorf("take of no charges: %d decisions, error %v", len(ds), err)
		}
	}
}

func appends(x *trial) {
	b := x.bucket("10/s burst 20")
	dst := make([]tidegate.Decision, 1, 8)
	dst[0] = tidegate.Decision{Rule: "before"}
	for range 2 {
		var err error
		if dst, err = x.store.Take(x.Context(), []tidegate.Charge{b.asks(1), b.asks(2)}, dst); err != nil {
			x.Fatalf("take: %v", err)
		}
	}
	if len(dst) != 5 || dst[0].Rule != "before" || dst[4].Remaining != 14 {
		x.Errorf("after two takes of two charges: %+v", dst)
	}
	bad := b.asks(1)
	bad.Limit = nil
	if ds, err := x.store.Take(x.Context(), []tidegate.Charge{b.asks(1), bad}, dst); err == nil || len(ds) > len(dst) {
		x.Errorf("a take that failed (%v) appended: %d decisions", err, len(ds))
	}
	b.wants(0, "yes 14/20 reset 600ms")
}

func denialIsNoError(x *trial) {
	for _, a := range algorithms {
		b := x.ready(a.limit)
		b.drain()
		for _, n := range []int64{0, 1, capacity, capacity + 1} {
			if ds, err := x.store.Take(x.Context(), []tidegate.Charge{b.asks(n)}, nil); err != nil || len(ds) != 1 || ds[0].Allowed {
				x.Errorf("%s: empty, a cost of %d: %v, error %v", b, n, ds, err)
			}
		}
	}
}

func invalidLimit(x *trial) {
	for _, l := range []tidegate.Limit{
		{},                                    // RB-065: zero
		{Rate: 10},                            // no period
		{Per: sec},                            // RB-004: no rate
		{Rate: -1, Per: sec},                  //
		{Rate: 10, Per: sec, Burst: -1},       //
		{Rate: 10, Per: -sec},                 //
		{Rate: 10, Per: time.Microsecond},     // too short to be exact
		{Rate: 1 << 62, Per: sec, Burst: 100}, // RB-064: overflow
		{Rate: 1, Per: 50 * 365 * day, Burst: 2},
		{Rate: 10, Per: sec, Slices: 3},
		{Rate: 10, Algorithm: tidegate.FixedWindow, Calendar: tidegate.CalendarDay, Zone: "Mars/Olympus"},
		{Rate: 10, Algorithm: tidegate.FixedWindow, Calendar: tidegate.CalendarDay, Zone: "Local"},
		{Rate: 20_000, Per: sec, Algorithm: tidegate.SlidingLog},
		{Rate: 10, Algorithm: 99},
	} {
		good, bad := x.bucket("10/s burst 20"), x.bucketOf(&l)
		for _, charges := range [][]tidegate.Charge{{bad.charge}, {good.asks(1), bad.charge}, {bad.charge, good.asks(1)}} {
			for i := range charges {
				charges[i].Cost = 1
			}
			ds, err := x.store.Take(x.Context(), charges, nil)
			if _, ok := errors.AsType[*tidegate.LimitError](err); !ok || len(ds) > 0 || errors.Is(err, tidegate.ErrStore) {
				x.Errorf("take under %+v: %d decisions, error %v, want a LimitError", l, len(ds), err)
			}
		}
		good.wants(0, "yes 20/20")
	}
}

func noLimit(x *trial) {
	good, bad := x.bucket("10/s burst 20"), tidegate.Charge{Rule: "rule", Key: "key", Cost: 1}
	for _, charges := range [][]tidegate.Charge{{bad}, {good.asks(1), bad}, {bad, good.asks(1)}} {
		if ds, err := x.store.Take(x.Context(), charges, nil); err == nil || len(ds) > 0 {
			x.Errorf("take without a limit: %d decisions, error %v", len(ds), err)
		}
	}
	good.wants(0, "yes 20/20")
}

// operations are all that a store does but Close, on a bucket and a reservation of it.
func operations(b *bucket, id string) map[string]func(context.Context) error {
	s, charges := b.x.store, []tidegate.Charge{b.charge}
	return map[string]func(context.Context) error{
		"take": func(ctx context.Context) error {
			ds, err := s.Take(ctx, []tidegate.Charge{b.asks(1)}, nil)
			if len(ds) > 0 {
				b.x.Errorf("a take that failed (%v) has a decision: %s", err, say(ds[0]))
			}
			return err
		},
		"take of several": func(ctx context.Context) error {
			_, err := s.Take(ctx, []tidegate.Charge{b.asks(1), b.asks(1)}, nil)
			return err
		},
		"refund":  func(ctx context.Context) error { _, err := s.Take(ctx, []tidegate.Charge{b.asks(-1)}, nil); return err },
		"settle":  func(ctx context.Context) error { return s.Settle(ctx, id, charges, 0) },
		"renew":   func(ctx context.Context) error { return s.Renew(ctx, id, charges) },
		"release": func(ctx context.Context) error { return s.Release(ctx, id, charges) },
		"reset":   func(ctx context.Context) error { return s.Reset(ctx, charges) },
		"now":     func(ctx context.Context) error { _, err := s.Now(ctx); return err },
	}
}

func contextEnded(ctx context.Context, x *trial, want error) {
	x.Helper()
	b := x.bucket("10/s burst 20")
	id, _ := b.reserve(5, 0, time.Hour)
	for name, f := range operations(b, id) {
		if err := f(ctx); !errors.Is(err, want) {
			x.Errorf("%s: error %v, want %v", name, err, want)
		}
		b.wants(0, "yes 15/20 reset 500ms")
	}
	b.wantSettle(id, 0)
}

func contextCancelled(x *trial) {
	ctx, cancel := context.WithCancel(x.Context())
	cancel()
	contextEnded(ctx, x, context.Canceled)
}

func contextLate(x *trial) {
	ctx, cancel := context.WithDeadline(x.Context(), time.Unix(0, 0))
	defer cancel()
	contextEnded(ctx, x, context.DeadlineExceeded)
}

func closed(x *trial) {
	b := x.bucket("10/s burst 20")
	id, _ := b.reserve(5, 0, time.Hour)
	if err := x.store.Close(); err != nil {
		x.Errorf("close: %v", err)
	}
	for name, f := range operations(b, id) {
		err := f(x.Context())
		if _, ok := errors.AsType[*tidegate.StoreError](err); !ok || !errors.Is(err, tidegate.ErrClosed) || !errors.Is(err, tidegate.ErrStore) {
			x.Errorf("%s after Close: error %v", name, err)
		}
	}
}

func closedTwice(x *trial) {
	for range 2 {
		if err := x.store.Close(); err != nil {
			x.Errorf("close: %v", err)
		}
	}
}

func resets(x *trial) {
	a, b, c := x.bucket("10/s burst 20"), x.bucket("5/min fixed-window"), x.bucket("10/s burst 20")
	for _, y := range []*bucket{a, b, c} {
		y.drain()
	}
	x.reset(a, b)
	a.wants(0, "yes 20/20")
	b.wants(0, "yes 5/5")
	c.wants(0, "no 0/20 retry 100ms reset 2s")
	sameKey := x.bucket("10/s burst 20")
	sameKey.charge.Key = a.charge.Key
	sameKey.drain()
	x.reset(a)
	sameKey.wants(0, "no 0/20 retry 100ms reset 2s")
	c.changed("unlimited", x.version()) // a limit that is unlimited for a while has a bucket all the same
	x.reset(c.changed("unlimited", x.version()))
	c.wants(0, "yes 20/20")
}

func resetNothing(x *trial) {
	x.reset()
	x.reset(x.bucket("10/s burst 20"))
	b := x.bucket("10/s burst 20")
	x.reset(b, b)
	b.wants(0, "yes 20/20")
}

func resetEach(x *trial, a algorithm) {
	b, fresh := x.ready(a.limit), x.bucket(a.limit)
	b.drain()
	x.reset(b)
	b.wants(0, say(fresh.take(0)))
	for range 5 {
		want := fresh.take(3)
		b.wants(3, say(want))
		x.advance(a.fill / 7)
	}
}

func nowIsTheClock(x *trial) {
	for _, d := range []time.Duration{0, us, time.Hour, -time.Hour} {
		x.at(d)
		if now, err := x.store.Now(x.Context()); err != nil || !now.Equal(x.now()) {
			x.Errorf("now is %v, error %v", now, err)
		}
	}
}

func chargesUnchanged(x *trial) {
	a, b := x.bucket("10/s burst 20"), x.bucket("5/min fixed-window")
	charges := []tidegate.Charge{a.asks(3), b.inShadow(2), a.asks(-1), a.asks(0)}
	limits := []tidegate.Limit{*charges[0].Limit, *charges[1].Limit}
	before := slices.Clone(charges)
	x.takeAll(charges...)
	if !slices.Equal(before, charges) || limits[0] != *charges[0].Limit || limits[1] != *charges[1].Limit {
		x.Errorf("got %+v, want %+v", charges, before)
	}
}
