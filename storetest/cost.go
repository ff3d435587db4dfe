package storetest

import (
	"errors"
	"math"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	rulePeek    = "a cost of 0 peeks: it answers for a cost of 1, charges nothing, writes nothing and creates nothing"
	ruleDenial  = "a denial costs the client nothing and writes nothing"
	ruleNever   = "a cost above the capacity is denied at once and says that it can never pass, whatever the bucket holds"
	ruleRefund  = "a negative cost refunds, never above capacity"
	ruleCharges = "a cost of n takes n, at once or one by one"
)

func costCases() []testCase {
	var cases []testCase
	cases = append(cases, forEach("n", ruleCharges, chargesN)...)
	cases = append(cases, forEach("peek", rulePeek, peekWritesNothing)...)
	cases = append(cases, testCase{"peek at a cold bucket", rulePeek, peekCold})
	cases = append(cases, forEach("denial", ruleDenial, denialIsFree, "warm-up")...)
	cases = append(cases, forEach("above capacity", ruleNever, aboveCapacity)...)
	cases = append(cases, forEach("above a used capacity", ruleNever, aboveUsedCapacity)...)
	cases = append(cases, forEach("refund", ruleRefund, refundClamps, "permits")...)
	cases = append(cases, forEach("refund undoes", "a refund at the moment of the charge undoes it", refundUndoes, "permits")...)
	return append(cases,
		testCase{"refund of permits", "permits are given back by Release: a negative cost is ErrUnsupported", refundPermits},
		testCase{"refund of a former window", "a refund never reaches a window that was not charged", refundFormerWindow},
	)
}

func chargesN(x *trial, a algorithm) {
	whole, single := x.twins(a.limit)
	before := x.elapsed()
	one := single.admit(13)
	if d := whole.take(13); !d.Allowed || one != 13 || d.Remaining != capacity-13 {
		x.Errorf("%s: 13 at once: %s; one by one: %d", whole, say(d), one)
	}
	if d := single.take(0); d.Remaining != capacity-13 || x.elapsed() != before {
		x.Errorf("%s: after 13 takes of 1: %s", single, say(d))
	}
	if n := whole.admit(100); n != capacity-13 {
		x.Errorf("%s: %d more were admitted after 13 of %d", whole, n, capacity)
	}
}

func peekWritesNothing(x *trial, a algorithm) {
	b := x.ready(a.limit)
	first := say(b.take(0))
	for range 30 {
		b.wants(0, first)
	}
	if n := x.h.Buckets; n != nil && b.charge.Limit.Warmup == 0 && n(x.t, x.store) != 0 {
		x.Errorf("%s: after peeks there are %d buckets", b, n(x.t, x.store))
	}
	if n := b.admit(100); n != capacity {
		x.Errorf("%s: after peeks %d were admitted of %d", b, n, capacity)
	}
	refused, peeked := b.take(1), b.take(0)
	if say(refused) != say(peeked) {
		x.Errorf("%s: empty, a peek answers %s and a take %s", b, say(peeked), say(refused))
	}
}

func peekCold(x *trial) {
	b := x.bucket("12/s burst 12 warmup 8s")
	b.wants(0, "no 0/12 retry 250ms reset 2.5s")
	x.at(time.Hour)
	b.wants(0, "no 0/12 retry 250ms reset 2.5s")
	b.wants(1, "no 0/12 retry 250ms reset 2.5s") // this one starts the climb
	x.at(time.Hour + 250*ms)
	b.wants(1, "yes 0/12 reset 2.416667s")
}

// denialIsFree compares two buckets of which one is also asked for what it must refuse.
func denialIsFree(x *trial, a algorithm) {
	asked, left := x.twins(a.limit)
	nag := func() {
		x.Helper()
		for _, n := range []int64{capacity + 1, math.MaxInt64, asked.take(0).Remaining + 1} {
			if d := asked.take(n); d.Allowed {
				x.Errorf("%s: a cost of %d: %s", asked, n, say(d))
			}
		}
	}
	nag()
	if n := x.h.Buckets; n != nil && n(x.t, x.store) != 0 {
		x.Errorf("%s: after denials there are %d buckets", asked, n(x.t, x.store))
	}
	for n := range int64(12) {
		nag()
		want := left.take(n % 4)
		asked.wants(n%4, say(want))
		x.advance(a.fill / 17)
	}
	nag()
	for range 40 {
		nag()
		x.advance(a.fill / 13)
		asked.wants(0, say(left.take(0)))
	}
}

func aboveCapacity(x *trial, a algorithm) {
	b := x.bucket(a.limit) // RB-052: the very first request
	for _, n := range []int64{capacity + 1, 1 << 31, 1 << 52, 1 << 53, math.MaxInt64} {
		if d := b.take(n); d.Allowed || d.RetryAfter != tidegate.Never {
			x.Errorf("%s: a cost of %d: %s", b, n, say(d))
		}
	}
	if b.charge.Limit.Warmup > 0 {
		x.advance(a.fill)
	}
	if d := b.take(capacity); !d.Allowed {
		x.Errorf("%s: afterwards a cost of %d: %s", b, capacity, say(d))
	}
}

func aboveUsedCapacity(x *trial, a algorithm) {
	b := x.ready(a.limit)
	b.take(7)
	before := b.take(0)
	if d := b.take(capacity + 1); d.Allowed || d.RetryAfter != tidegate.Never || d.Remaining != capacity-7 {
		x.Errorf("%s: a cost of %d: %s", b, capacity+1, say(d))
	}
	b.wants(0, say(before))
}

func refundClamps(x *trial, a algorithm) {
	b := x.ready(a.limit)
	refund := func(n, remaining int64) {
		x.Helper()
		if d := b.take(-n); !d.Allowed || d.Remaining != remaining || d.Delay != 0 {
			x.Errorf("%s: a refund of %d: %s, want %d remaining", b, n, say(d), remaining)
		}
	}
	refund(1, capacity) // RB-049: of a bucket that is full already
	refund(math.MaxInt64, capacity)
	b.take(5)
	refund(3, capacity-2)
	refund(3, capacity)
	b.drain()
	refund(1, 1)
	b.take(1)
	for _, n := range []int64{capacity, capacity + 1, 1 << 52, 1 << 60, math.MaxInt64} {
		refund(n, capacity)
		if got := b.admit(100); got != capacity {
			x.Errorf("%s: after a refund of %d, %d were admitted of %d", b, n, got, capacity)
		}
	}
	if d := b.take(math.MinInt64); !d.Allowed || d.Remaining != capacity {
		x.Errorf("%s: a refund of all there is: %s", b, say(d))
	}
	if d := b.take(0); d.ResetAfter != 0 {
		x.Errorf("%s: full again: %s", b, say(d))
	}
}

func refundUndoes(x *trial, a algorithm) {
	b, left := x.twins(a.limit)
	for n := range int64(15) {
		x.advance(a.fill / 11)
		cost := 1 + n%5
		if d := b.take(cost); d.Allowed {
			b.take(-cost)
		}
		b.wants(0, say(left.take(0)))
		if n%2 == 0 {
			want := left.take(cost)
			b.wants(cost, say(want))
		}
	}
}

func refundPermits(x *trial) {
	b := x.bucket("20 concurrent ttl 1m")
	b.take(3)
	if _, err := x.store.Take(x.Context(), []tidegate.Charge{b.asks(-1)}, nil); !errors.Is(err, tidegate.ErrUnsupported) {
		x.Errorf("a refund of a permit: error %v", err)
	}
	b.wants(0, "yes 17/20 reset 1m0s")
}

func refundFormerWindow(x *trial) {
	for _, limit := range []string{"20/min fixed-window", "20/month"} {
		b := x.bucket(limit)
		b.drain()
		x.advance(b.take(0).ResetAfter)
		b.take(-5) // what was charged has gone with its window
		if n := b.admit(100); n != 20 {
			x.Errorf("%s: after a late refund of 5, %d were admitted of 20", b, n)
		}
	}
}
