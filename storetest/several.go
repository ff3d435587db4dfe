package storetest

import (
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleAll     = "all or nothing: only when every charge that is not in shadow is allowed is any charged"
	ruleEach    = "every charge is evaluated, whether another was refused or not, and has the decision of its own bucket, in the order of the charges"
	ruleShadow  = "a charge in shadow never refuses a take, and is charged only when the others pass and there is room"
	ruleTwice   = "charges of one bucket in one take see each other"
	ruleNoOrder = "the order of the charges does not matter"
)

func severalCases() []testCase {
	return []testCase{
		{"one refuses", ruleAll, oneRefuses},
		{"all refuse", ruleEach, allRefuse},
		{"every algorithm at once", ruleAll, everyAlgorithm},
		{"unlimited and none", ruleEach, statelessAmong},
		{"refund in a refused take", ruleAll, refundInRefused},
		{"a bucket twice", ruleTwice, bucketTwice},
		{"a bucket twice, waiting", ruleTwice, bucketTwiceRetry},
		{"a bucket twice, for ever", ruleNever, bucketTwiceNever},
		{"a bucket twice, in shadow", ruleShadow, bucketTwiceShadow},
		{"peek among charges", "a peek among charges writes nothing", peekAmong},
		{"shadow with room", ruleShadow, shadowWithRoom},
		{"shadow without room", ruleShadow, shadowWithoutRoom},
		{"shadow of a refused take", ruleShadow, shadowOfRefused},
		{"shadow alone", ruleShadow, shadowAlone},
		{"shadow of none", ruleShadow, shadowOfNone},
		{"random takes", ruleAll + ", each as if it were alone", randomTakes},
		{"random orders", ruleNoOrder, randomOrders},
	}
}

// wantAll compares decisions with their texts.
func (x *trial) wantAll(ds []tidegate.Decision, want ...string) {
	x.Helper()
	got := make([]string, len(ds))
	for i := range ds {
		got[i] = say(ds[i])
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		x.Errorf("got %q, want %q", got, want)
	}
}

func oneRefuses(x *trial) {
	a, b, c := x.bucket("10/s burst 20"), x.bucket("1/s burst 1"), x.bucket("5/min fixed-window")
	b.drain()
	x.wantAll(x.takeAll(a.asks(3), b.asks(1), c.asks(2)), "yes 20/20", "no 0/1 retry 1s reset 1s", "yes 5/5")
	x.wantAll(x.takeAll(b.asks(1), c.asks(2), a.asks(3)), "no 0/1 retry 1s reset 1s", "yes 5/5", "yes 20/20")
	x.at(sec)
	x.wantAll(x.takeAll(c.asks(2), a.asks(3), b.asks(1)), "yes 3/5 reset 59s", "yes 17/20 reset 300ms", "yes 0/1 reset 1s")
}

func allRefuse(x *trial) {
	a, b, c := x.bucket("10/s burst 20"), x.bucket("1/s burst 1"), x.bucket("5/min fixed-window")
	for _, y := range []*bucket{a, b, c} {
		y.drain()
	}
	x.wantAll(x.takeAll(a.asks(2), b.asks(1), c.asks(6)), "no 0/20 retry 200ms reset 2s", "no 0/1 retry 1s reset 1s", "no 0/5 retry never reset 1m0s")
}

func everyAlgorithm(x *trial) {
	var charges []tidegate.Charge
	var buckets []*bucket
	for _, a := range algorithms {
		buckets = append(buckets, x.ready(a.limit))
	}
	ask := func(cost int64) []tidegate.Decision {
		x.Helper()
		id := x.name("id")
		charges = charges[:0]
		for _, b := range buckets {
			c := b.asks(cost)
			if c.ID != "" {
				c.ID = id
			}
			charges = append(charges, c)
		}
		return x.takeAll(charges...)
	}
	for i, d := range ask(5) {
		if !d.Allowed || d.Remaining != capacity-5 {
			x.Errorf("%s: %s", buckets[i], say(d))
		}
	}
	empty := x.bucket("1/min fixed-window")
	empty.drain()
	buckets = append(buckets, empty)
	for i, d := range ask(1) {
		if want := buckets[i] != empty; d.Allowed != want || want && d.Remaining != capacity-5 {
			x.Errorf("%s: in a take that was refused: %s", buckets[i], say(d))
		}
	}
	for _, b := range buckets[:len(algorithms)] {
		if d := b.take(0); d.Remaining != capacity-5 {
			x.Errorf("%s: after a take that was refused: %s", b, say(d))
		}
	}
}

func statelessAmong(x *trial) {
	a, free, closed := x.bucket("10/s burst 20"), x.bucket("unlimited"), x.bucket("none")
	x.wantAll(x.takeAll(free.asks(100), a.asks(1)), "yes unlimited", "yes 19/20 reset 100ms")
	x.wantAll(x.takeAll(a.asks(1), closed.asks(1), free.asks(1)), "yes 19/20 reset 100ms", "no 0/0 retry never reset never", "yes unlimited")
	x.wantAll(x.takeAll(free.asks(1), closed.asks(1)), "yes unlimited", "no 0/0 retry never reset never")
	x.wantAll(x.takeAll(free.asks(1), closed.inShadow(1), a.asks(1)), "yes unlimited", "no 0/0 retry never reset never", "yes 18/20 reset 200ms")
}

func refundInRefused(x *trial) {
	a, b := x.bucket("10/s burst 20"), x.bucket("1/s burst 1")
	a.take(5)
	b.drain()
	x.wantAll(x.takeAll(a.asks(-5), b.asks(1)), "yes 15/20 reset 500ms", "no 0/1 retry 1s reset 1s")
	a.wants(0, "yes 15/20 reset 500ms")
	x.at(sec)
	a.drain()
	x.wantAll(x.takeAll(a.asks(-5), b.asks(1)), "yes 5/20 reset 1.5s", "yes 0/1 reset 1s")
}

func bucketTwice(x *trial) {
	b := x.bucket("10/s burst 5")
	b.take(1)
	x.wantAll(x.takeAll(b.asks(3), b.asks(2)), "yes 4/5 reset 100ms", "no 4/5 retry 100ms reset 100ms")
	x.wantAll(x.takeAll(b.asks(3), b.asks(1)), "yes 1/5 reset 400ms", "yes 0/5 reset 500ms")
	x.at(sec)
	x.wantAll(x.takeAll(b.asks(5), b.asks(-2), b.asks(2)), "yes 0/5 reset 500ms", "yes 2/5 reset 300ms", "yes 0/5 reset 500ms")
	for _, a := range algorithms {
		b := x.ready(a.limit)
		twice := func(cost int64) []tidegate.Decision {
			x.Helper()
			first, second := b.asks(cost), b.asks(cost)
			second.ID = first.ID
			return x.takeAll(first, second)
		}
		if ds := twice(11); !ds[0].Allowed || ds[1].Allowed || ds[0].Remaining != capacity || ds[1].Remaining != capacity {
			x.Errorf("%s: 11 and 11 of 20: %s, %s", b, say(ds[0]), say(ds[1]))
		}
		if ds := twice(10); !ds[0].Allowed || !ds[1].Allowed || ds[1].Remaining != 0 {
			x.Errorf("%s: 10 and 10 of 20: %s, %s", b, say(ds[0]), say(ds[1]))
		}
		if d := b.take(1); d.Allowed {
			x.Errorf("%s: 1 after 20 of 20: %s", b, say(d))
		}
	}
}

// bucketTwiceRetry follows the longest wait: the take must then pass as a whole.
func bucketTwiceRetry(x *trial) {
	for _, a := range algorithms {
		b := x.ready(a.limit)
		b.take(12)
		first, second := b.asks(5), b.asks(6)
		second.ID = first.ID
		ds := x.takeAll(first, second)
		if !ds[0].Allowed || ds[1].Allowed || ds[1].RetryAfter > a.fill {
			x.Errorf("%s: 5 and 6 of 8: %s, %s", b, say(ds[0]), say(ds[1]))
			continue
		}
		tick := x.resolution(b.charge.Limit)
		x.advance(ds[1].RetryAfter - tick)
		if ds := x.takeAll(first, second); ds[1].Allowed {
			x.Errorf("%s: 5 and 6 of 8 passed a tick early", b)
		}
		x.advance(tick)
		if ds := x.takeAll(first, second); !ds[0].Allowed || !ds[1].Allowed {
			x.Errorf("%s: 5 and 6 when the time has come: %s, %s", b, say(ds[0]), say(ds[1]))
		}
	}
}

// bucketTwiceNever asks for more than there can be, in two parts.
func bucketTwiceNever(x *trial) {
	for _, a := range algorithms {
		b := x.ready(a.limit)
		first, second := b.asks(11), b.asks(11)
		second.ID = first.ID
		if ds := x.takeAll(first, second); !ds[0].Allowed || ds[1].Allowed || ds[1].RetryAfter != tidegate.Never {
			x.Errorf("%s: 11 and 11 of 20: %s, %s", b, say(ds[0]), say(ds[1]))
		}
	}
}

func bucketTwiceShadow(x *trial) {
	b := x.bucket("10/s burst 5")
	x.wantAll(x.takeAll(b.inShadow(3), b.asks(3)), "no 2/5 retry 100ms reset 300ms", "yes 2/5 reset 300ms")
	x.wantAll(x.takeAll(b.inShadow(1), b.asks(1)), "yes 0/5 reset 500ms", "yes 1/5 reset 400ms")
}

func peekAmong(x *trial) {
	a, b := x.bucket("10/s burst 20"), x.bucket("5/min fixed-window")
	x.wantAll(x.takeAll(a.asks(0), b.asks(2)), "yes 20/20", "yes 3/5 reset 1m0s")
	x.wantAll(x.takeAll(b.asks(0), a.asks(3), b.asks(0)), "yes 3/5 reset 1m0s", "yes 17/20 reset 300ms", "yes 3/5 reset 1m0s")
	a.wants(0, "yes 17/20 reset 300ms")
	b.wants(0, "yes 3/5 reset 1m0s")
}

func shadowWithRoom(x *trial) {
	for _, a := range algorithms {
		b, dark := x.bucket("1/s burst 10"), x.ready(a.limit)
		ds := x.takeAll(dark.inShadow(5), b.asks(1))
		if !ds[0].Allowed || ds[0].Remaining != capacity-5 || !ds[1].Allowed {
			x.Errorf("%s: in shadow: %s, enforced %s", dark, say(ds[0]), say(ds[1]))
		}
		if d := dark.take(0); d.Remaining != capacity-5 {
			x.Errorf("%s: after a charge of 5 in shadow: %s", dark, say(d))
		}
	}
}

func shadowWithoutRoom(x *trial) {
	for _, a := range algorithms {
		b, dark := x.bucket("1/s burst 10"), x.ready(a.limit)
		dark.take(capacity - 3)
		before := say(dark.take(0))
		for _, order := range [][]tidegate.Charge{{dark.inShadow(4), b.asks(1)}, {b.asks(1), dark.inShadow(4)}} {
			ds := x.takeAll(order...)
			shadow, enforced := ds[0], ds[1]
			if order[1].Shadow {
				shadow, enforced = enforced, shadow
			}
			if shadow.Allowed || !enforced.Allowed || shadow.Remaining != 3 || shadow.RetryAfter == tidegate.Never {
				x.Errorf("%s: in shadow without room: %s, enforced %s", dark, say(shadow), say(enforced))
			}
		}
		dark.wants(0, before)
		if d := b.take(0); d.Remaining != 8 {
			x.Errorf("%s: what was enforced beside a shadow without room: %s", b, say(d))
		}
	}
}

func shadowOfRefused(x *trial) {
	b, dark := x.bucket("1/s burst 1"), x.bucket("10/s burst 20")
	b.drain()
	x.wantAll(x.takeAll(dark.inShadow(5), b.asks(1)), "yes 20/20", "no 0/1 retry 1s reset 1s")
	x.wantAll(x.takeAll(b.asks(1), dark.inShadow(21)), "no 0/1 retry 1s reset 1s", "no 20/20 retry never")
	dark.wants(0, "yes 20/20")
}

func shadowAlone(x *trial) {
	dark := x.bucket("10/s burst 3")
	x.wantAll(x.takeAll(dark.inShadow(2)), "yes 1/3 reset 200ms")
	x.wantAll(x.takeAll(dark.inShadow(2)), "no 1/3 retry 100ms reset 200ms")
	x.wantAll(x.takeAll(dark.inShadow(1)), "yes 0/3 reset 300ms")
}

func shadowOfNone(x *trial) {
	a := x.bucket("10/s burst 20")
	x.wantAll(x.takeAll(x.bucket("none").inShadow(1), a.asks(1)), "no 0/0 retry never reset never", "yes 19/20 reset 100ms")
}

// randomTakes compares takes of several charges with the same charges one by one, on buckets of their own.
func randomTakes(x *trial) {
	r := x.rand
	for range x.h.Rounds {
		x.at(0)
		var buckets, mirror []*bucket
		for range 2 + r.IntN(4) {
			a := algorithms[r.IntN(len(algorithms)-2)] // all but warm-up and permits
			buckets, mirror = append(buckets, x.bucket(a.limit)), append(mirror, x.bucket(a.limit))
		}
		for range 8 {
			x.advance([]time.Duration{0, ms, 300 * ms, 20 * sec}[r.IntN(4)])
			var charges []tidegate.Charge
			for _, b := range buckets {
				c := b.asks(r.Int64N(9))
				c.Shadow = r.IntN(4) == 0
				charges = append(charges, c)
			}
			refused, want := false, make([]string, len(charges))
			for i, c := range charges {
				peek := mirror[i].take(0)
				refused = refused || !c.Shadow && max(1, c.Cost) > peek.Remaining
			}
			ds := x.takeAll(charges...)
			for i, c := range charges {
				switch {
				case !refused:
					want[i] = say(mirror[i].take(c.Cost))
				case ds[i].Allowed:
					ds[i].Delay = 0 // of what was not charged
					d := mirror[i].take(0)
					want[i] = say(tidegate.Decision{Allowed: max(1, c.Cost) <= d.Remaining, Limit: d.Limit, Remaining: d.Remaining, ResetAfter: d.ResetAfter})
				default:
					want[i] = say(mirror[i].take(c.Cost)) // refused here too, and free
				}
			}
			x.wantAll(ds, want...)
		}
	}
}

// randomOrders takes the same from two sets of buckets in two orders.
func randomOrders(x *trial) {
	r := x.rand
	for range x.h.Rounds {
		x.at(0)
		n := 2 + r.IntN(4)
		one, two := make([]tidegate.Charge, n), make([]tidegate.Charge, n)
		for i := range n {
			a := algorithms[r.IntN(len(algorithms)-2)] // all but warm-up and permits
			one[i], two[i] = x.bucket(a.limit).asks(1), x.bucket(a.limit).asks(1)
			one[i].Shadow = r.IntN(4) == 0
			two[i].Shadow = one[i].Shadow
		}
		for range 8 {
			x.advance([]time.Duration{0, ms, 300 * ms, 20 * sec}[r.IntN(4)])
			order := r.Perm(n)
			shuffled := make([]tidegate.Charge, n)
			for i := range n {
				one[i].Cost = 1 + r.Int64N(8)
				two[i].Cost = one[i].Cost
			}
			for i, j := range order {
				shuffled[i] = two[j]
			}
			ds, other := x.takeAll(one...), x.takeAll(shuffled...)
			for i, j := range order {
				if say(ds[j]) != say(other[i]) {
					x.Fatalf("%s: charge %d: %s, and in the order %v: %s", describe(one), j, say(ds[j]), order, say(other[i]))
				}
			}
		}
	}
}
