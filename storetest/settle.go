package storetest

import (
	"errors"
	"math"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleSettle  = "a settle refunds what was charged too much and charges what was charged too little, into debt if need be"
	ruleOnce    = "a settle works once; then, and for an ID that is not known, it is ErrUnknownID and changes nothing"
	ruleCharged = "a rest is refunded into the window that was charged, and lapses with it"
	ruleHold    = "a reservation can be settled until Hold after its start, and stays charged otherwise"
	ruleNamed   = "the charges of a settle name the buckets as they did when the reservation was made"
)

func settleCases() []testCase {
	cases := []testCase{
		{"excess into debt", ruleSettle, settleDebt},
		{"leaky bucket", ruleSettle, settleLeaky},
		{"without waiting", ruleSettle, settleImmediate},
		{"a later reservation", "cancelling a reservation gives all of it back, whatever was reserved later", settleEarlier},
		{"in another window", ruleCharged, settleFormerWindow},
		{"for the next window", ruleCharged, settleNextWindow},
		{"for the next window, begun", ruleCharged, settleBegunWindow},
		{"in a slice", ruleCharged, settleSlice},
		{"several", ruleSettle, settleSeveral},
		{"several, twice one bucket", ruleSettle, settleTwice},
		{"a shadow without room", "a charge in shadow that was not made is not refunded", settleShadow},
		{"beside unlimited", ruleSettle, settleBesideUnlimited},
		{"beside permits and a log", "a settle leaves alone what has no reservations, and Release what is none of permits", settleBesidePermits},
		{"other keys", ruleNamed, settleOtherKeys},
		{"refused", ruleOnce, settleRefused},
		{"after a reset", ruleSettle, settleAfterReset},
		{"ids", "an ID is any bytes up to 100, and no other names its reservation", settleIDs},
	}
	cases = append(cases, forEach("rest", ruleSettle, settleRest, notReserving...)...)
	cases = append(cases, forEach("cancel", ruleSettle, settleCancel, notReserving...)...)
	cases = append(cases, forEach("excess", ruleSettle, settleExcess, notReserving...)...)
	cases = append(cases, forEach("huge excess", ruleSettle, settleHuge, notReserving...)...)
	cases = append(cases, forEach("once", ruleOnce, settleOnce, notReserving...)...)
	cases = append(cases, forEach("negative", "a settle for less than 0 is an error and settles nothing", settleNegative, notReserving...)...)
	cases = append(cases, forEach("late", ruleRefund, settleLate, notReserving...)...)
	cases = append(cases, forEach("hold", ruleHold, settleHold, notReserving...)...)
	cases = append(cases, forEach("hold of nothing", ruleHold, settleNoHold, notReserving...)...)
	cases = append(cases, forEach("after a change", "a settle after a change of the limit keeps to the new limit", settleAfterChange, notReserving...)...)
	for _, to := range algorithms {
		cases = append(cases, testCase{"after a change to " + to.name, "a settle after a change of algorithm refunds nothing, and succeeds",
			func(x *trial) { settleAfterAlgorithm(x, to) }})
	}
	return cases
}

func (b *bucket) settle(id string, cost int64) error {
	return b.x.store.Settle(b.x.Context(), id, []tidegate.Charge{b.charge}, cost)
}

// wantSettle settles without error.
func (b *bucket) wantSettle(id string, cost int64) {
	b.x.Helper()
	if err := b.settle(id, cost); err != nil {
		b.x.Errorf("%s: settle for %d: %v", b, cost, err)
	}
}

// wantUnknown settles in vain.
func (b *bucket) wantUnknown(id string) {
	b.x.Helper()
	before := say(b.take(0))
	if err := b.settle(id, 0); !errors.Is(err, tidegate.ErrUnknownID) {
		b.x.Errorf("%s: settle of %q: error %v, want ErrUnknownID", b, id, err)
	}
	b.wants(0, before)
}

// reserved returns a bucket of 20 on which 8 were taken and then 6 reserved, as a take without MaxWait.
func (x *trial) reserved(limit string, hold time.Duration) (*bucket, string) {
	x.Helper()
	b := x.ready(limit)
	b.take(8)
	id, d := b.reserve(6, 0, hold)
	if !d.Allowed || d.Remaining != 6 {
		x.Fatalf("%s: a reservation of 6 after 8: %s", b, say(d))
	}
	return b, id
}

// waiting returns an empty bucket with a reservation of 1, and how long that waits.
func (x *trial) waiting(a algorithm, hold time.Duration) (*bucket, string, time.Duration) {
	x.Helper()
	b := x.ready(a.unqueued())
	b.drain()
	id, d := b.reserve(1, 2*a.fill, hold)
	if !d.Allowed || d.Delay <= 0 {
		x.Fatalf("%s: a reservation on an empty bucket: %s", b, say(d))
	}
	return b, id, d.Delay
}

func settleRest(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, time.Hour)
	b.wantSettle(id, 2)
	if d := b.take(0); d.Remaining != 10 {
		x.Errorf("%s: after 6 were settled for 2: %s", b, say(d))
	}
}

func settleCancel(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, time.Hour)
	left := x.ready(a.limit)
	if left.charge.Limit.Warmup == 0 {
		left.take(8)
		b.wantSettle(id, 0)
		b.wants(0, say(left.take(0)))
		return
	}
	b.wantSettle(id, 0)
	if d := b.take(0); !d.Allowed {
		x.Errorf("%s: after a cancel: %s", b, say(d))
	}
}

func settleExcess(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, time.Hour)
	b.wantSettle(id, 9)
	if d := b.take(0); d.Remaining != 3 {
		x.Errorf("%s: after 6 were settled for 9: %s", b, say(d))
	}
}

func settleHuge(x *trial, a algorithm) {
	for _, cost := range []int64{1000, 1 << 31, 1 << 52, 1 << 53, math.MaxInt64} {
		b, id := x.reserved(a.limit, time.Hour)
		b.wantSettle(id, cost)
		d := b.take(1)
		if d.Allowed || d.Remaining != 0 || d.RetryAfter <= 0 || d.RetryAfter == tidegate.Never {
			x.Errorf("%s: after 6 were settled for %d: %s", b, cost, say(d))
		}
		if _, err := x.store.Take(x.Context(), []tidegate.Charge{b.asks(-math.MaxInt64)}, nil); err != nil {
			x.Errorf("%s: a refund after that: %v", b, err)
		}
		if d := b.take(0); d.Remaining > capacity {
			x.Errorf("%s: a refund after that: %s", b, say(d))
		}
	}
}

func settleOnce(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, time.Hour)
	b.wantSettle(id, 6)
	b.wantUnknown(id)
	b.wantUnknown("never made")
	b.wantUnknown("")
	b, id = x.reserved(a.limit, time.Hour)
	b.wantSettle(id, 0)
	b.wantUnknown(id)
}

func settleNegative(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, time.Hour)
	if err := b.settle(id, -1); err == nil || errors.Is(err, tidegate.ErrUnknownID) || errors.Is(err, tidegate.ErrStore) {
		x.Errorf("%s: settle for -1: error %v", b, err)
	}
	if d := b.take(0); d.Remaining != 6 {
		x.Errorf("%s: after a settle for -1: %s", b, say(d))
	}
	b.wantSettle(id, 5)
}

func settleLate(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, 10*365*day)
	x.advance(b.take(0).ResetAfter)
	b.wantSettle(id, 0)
	if d := b.take(0); d.Remaining != capacity {
		x.Errorf("%s: a cancel after all has come back: %s", b, say(d))
	}
	if n := b.admit(100); n != capacity {
		x.Errorf("%s: after a late cancel %d were admitted of %d", b, n, capacity)
	}
}

func settleHold(x *trial, a algorithm) {
	const hold = 10 * sec
	b, id := x.reserved(a.limit, hold)
	x.advance(hold - us)
	b.wantSettle(id, 6)
	if a.name != "leaky bucket" { // where it starts later, when it has come through the queue
		b, id = x.reserved(a.limit, hold)
		x.advance(hold)
		b.wantUnknown(id)
	}
	b, id, delay := x.waiting(a, hold)
	x.advance(delay + hold - us)
	b.wantSettle(id, 1)
	b, id, delay = x.waiting(a, hold)
	x.advance(delay + hold)
	b.wantUnknown(id)
}

func settleNoHold(x *trial, a algorithm) {
	if a.name != "leaky bucket" {
		b, id := x.reserved(a.limit, 0) // it has started
		b.wantUnknown(id)
	}
	b, id, delay := x.waiting(a, 0)
	x.advance(delay / 2)
	b.wantSettle(id, 0)
	b, id, delay = x.waiting(a, 0)
	x.advance(delay)
	b.wantUnknown(id)
}

// settleAfterChange settles once the limit is another one of the same kind.
func settleAfterChange(x *trial, a algorithm) {
	b, id := x.reserved(a.limit, time.Hour)
	c := b.changed(a.other, x.version())
	c.wantSettle(id, 6)
	if d := c.take(0); d.Limit != 14 || d.Remaining < 4 || d.Remaining > 5 {
		x.Errorf("%s: 14 of 20 in use, then %s: %s", b, a.other, say(d))
	}
	b, id = x.reserved(a.limit, time.Hour)
	c = b.changed(a.other, x.version())
	c.wantSettle(id, 0)
	if d := c.take(0); d.Limit != 14 || d.Remaining > 14 {
		x.Errorf("%s: a cancel under %s: %s", b, a.other, say(d))
	}
}

func settleAfterAlgorithm(x *trial, to algorithm) {
	for _, limit := range []string{"20/s burst 20", "20/h fixed-window", "20/h sliding-window"} {
		if x.limit(limit).Algorithm == x.limit(to.limit).Algorithm || to.name == "leaky bucket" && limit == "20/s burst 20" {
			continue
		}
		b, id := x.reserved(limit, time.Hour)
		c := b.changed(to.limit, x.version())
		before := c.take(0)
		c.wantSettle(id, 0)
		if d := c.take(0); d.Remaining > before.Remaining {
			x.Errorf("%s: cancelled under %s: %s, before that %s", b, to.limit, say(d), say(before))
		}
	}
}

func settleDebt(x *trial) {
	b := x.bucket("10/s burst 10")
	id, _ := b.reserve(5, 0, time.Hour)
	b.wantSettle(id, 25)
	b.wants(0, "no 0/10 retry 1.6s reset 2.5s")
	x.at(1600 * ms)
	b.wants(1, "yes 0/10 reset 1s")
	w := x.bucket("5/min fixed-window")
	id, _ = w.reserve(2, 0, time.Hour)
	w.wantSettle(id, 50)
	w.wants(1, "no 0/5 retry 58.4s reset 58.4s")
	x.at(time.Minute)
	w.wants(5, "yes 0/5 reset 1m0s") // the debt of a window ends with it
}

func settleLeaky(x *trial) {
	b := x.bucket("10/s leaky-bucket queue 5")
	id, _ := b.reserve(3, time.Hour, time.Hour)
	b.wants(0, "yes 3/6 delay 300ms reset 300ms")
	b.wantSettle(id, 1)
	b.wants(0, "yes 5/6 delay 100ms reset 100ms")
}

// settleImmediate settles a take that waited for nothing, as an estimate of a call's tokens is.
func settleImmediate(x *trial) {
	b := x.bucket("1000/min burst 1000")
	for _, c := range []struct{ estimate, actual, left int64 }{{100, 60, 940}, {100, 100, 840}, {100, 250, 590}, {590, 600, 0}} {
		id, d := b.reserve(c.estimate, 0, time.Hour)
		if !d.Allowed {
			x.Fatalf("%s: %s", b, say(d))
		}
		b.wantSettle(id, c.actual)
		if d := b.take(0); d.Remaining != c.left {
			x.Errorf("%s: %d settled for %d: %s, want %d", b, c.estimate, c.actual, say(d), c.left)
		}
	}
	b.wants(1, "no 0/1000 retry 660ms reset 1m0.6s")
}

// settleEarlier is RB-001.
func settleEarlier(x *trial) {
	b := x.bucket("10/s burst 20")
	b.wantReserve(15, sec, "yes 5/20 reset 1.5s")
	x.at(100 * ms)
	id, d := b.reserve(10, sec, time.Hour)
	if say(d) != "yes 0/20 delay 400ms reset 2.4s" {
		x.Errorf("%s: %s", b, say(d))
	}
	x.at(200 * ms)
	b.wantReserve(2, sec, "yes 0/20 delay 500ms reset 2.5s")
	b.wantSettle(id, 0)
	if n := b.admit(100); n != 5 {
		x.Errorf("%s: after the cancel %d passed instead of 5", b, n)
	}
}

func settleRefused(x *trial) {
	b := x.bucket("10/s burst 20")
	b.take(15)
	id, d := b.reserve(6, 0, time.Hour)
	if d.Allowed {
		x.Errorf("%s: 6 of 5: %s", b, say(d))
	}
	b.wantUnknown(id)
}

func settleAfterReset(x *trial) {
	b := x.bucket("10/s burst 20")
	id, _ := b.reserve(6, 0, time.Hour)
	x.reset(b)
	b.take(1)
	b.wantSettle(id, 0)
	b.wants(0, "yes 20/20")
}

func settleIDs(x *trial) {
	long := make([]byte, 100)
	for i := range long {
		long[i] = 'x'
	}
	ids := []string{
		"a", "A", "a ", " a", "a\x00", "\x00", "\n", "a\nb", "a b", "{a}", "%", "%61", "a/b", "a|b", "é", "e\u0301", "\xff", "\xfe",
		string(long), string(long[:99]),
	}
	b := x.bucket("1000/h burst 1000")
	for i, id := range ids {
		c := b.asks(int64(i + 1))
		c.ID, c.Hold = id, time.Hour
		x.takeAll(c)
	}
	for i, id := range ids {
		before := b.take(0).Remaining
		b.wantSettle(id, 0)
		if got := b.take(0).Remaining - before; got != int64(i+1) {
			x.Errorf("cancel of %q gave %d back instead of %d", id, got, i+1)
		}
		b.wantUnknown(id)
	}
	c := b.asks(1)
	c.ID, c.Hold = string(long)+"x", time.Hour
	if _, err := x.store.Take(x.Context(), []tidegate.Charge{c}, nil); err == nil {
		x.Errorf("an ID of 101 bytes was taken")
	}
	b.wants(0, "yes 1000/1000")
}
