package storetest

import (
	"math/big"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleBack    = "when the clock steps back, nothing is granted twice"
	ruleStall   = "when the clock steps back, no bucket stalls longer than the time it takes to fill"
	ruleForward = "when the clock steps forward, at most one full bucket is granted"
	ruleRebase  = "a refused take that finds the bucket's time ahead of now rebases it"
)

// steps are how far clocks jump.
var steps = []time.Duration{us, ms, 999 * ms, sec, 37 * sec, time.Minute, 61 * sec, time.Hour, 25 * time.Hour, 40 * day, 3 * 365 * day}

func clockCases() []testCase {
	var cases []testCase
	cases = append(cases, forEach("back", ruleBack, stepBack)...)
	cases = append(cases, forEach("stall", ruleStall, stall)...)
	cases = append(cases, forEach("forward", ruleForward, stepForward)...)
	cases = append(cases, forEach("there and back", ruleBack, thereAndBack)...)
	return append(cases,
		testCase{"rebase", ruleRebase, rebase},
		testCase{"back by a second", ruleBack, backBySecond},
		testCase{"log across a step", ruleBack, logAcrossStep},
		testCase{"permits across a step", "a permit is held for its TTL, wherever the clock steps", permitsAcrossStep},
		testCase{"random walk", ruleBack, randomWalk},
	)
}

func stepBack(x *trial, a algorithm) {
	for _, by := range steps {
		x.at(0)
		b := x.ready(a.limit)
		b.drain()
		x.advance(-by)
		for range 3 {
			if d := b.take(1); d.Allowed {
				x.Errorf("%s: empty, and %v back: %s", b, by, say(d))
			}
		}
		half := x.ready(a.limit)
		half.take(10)
		x.advance(-by)
		if n := half.admit(100); n > 10 {
			x.Errorf("%s: half full, and %v back: %d were admitted", half, by, n)
		}
	}
}

func stall(x *trial, a algorithm) {
	for _, by := range steps {
		x.at(0)
		b := x.ready(a.limit)
		b.drain()
		x.advance(-by)
		d := b.take(1)
		if d.Allowed || d.RetryAfter > a.fill || d.ResetAfter > a.fill {
			x.Errorf("%s: empty, and %v back: %s: it fills in %v", b, by, say(d), a.fill)
		}
		x.advance(d.RetryAfter)
		if late := b.take(1); !late.Allowed {
			x.Errorf("%s: empty, and %v back: %s, and then %s", b, by, say(d), say(late))
		}
	}
}

func stepForward(x *trial, a algorithm) {
	for _, by := range steps {
		x.at(0)
		b := x.ready(a.limit)
		b.drain()
		x.advance(by)
		if n := b.admit(100); n > capacity {
			x.Errorf("%s: empty, and %v forward: %d were admitted of %d", b, by, n, capacity)
		}
		if d := b.take(1); d.Allowed || d.RetryAfter > a.fill {
			x.Errorf("%s: empty after %v forward: %s", b, by, say(d))
		}
	}
}

// thereAndBack jumps far ahead and back: a bucket that was full there is empty here.
func thereAndBack(x *trial, a algorithm) {
	b := x.ready(a.limit)
	b.drain()
	x.advance(365 * day)
	if b.charge.Limit.Warmup > 0 { // it is cold by now
		x.advance(b.take(1).ResetAfter)
	}
	if n := b.admit(100); n != capacity {
		x.Errorf("%s: a year later %d were admitted", b, n)
	}
	for range 3 {
		x.advance(-365 * day)
		if n := b.admit(100); n > 0 {
			x.Errorf("%s: emptied a year ahead, and back: %d were admitted", b, n)
		}
	}
}

func rebase(x *trial) {
	b := x.bucket("10/s burst 10")
	b.drain()
	x.at(-time.Hour)
	b.wants(0, "no 0/10 retry 100ms reset 1s") // a peek does not
	x.at(100 * ms)
	b.wants(0, "yes 1/10 reset 900ms")
	x.at(-time.Hour)
	b.wants(1, "no 0/10 retry 100ms reset 1s")
	x.at(-time.Hour + 100*ms)
	b.wants(1, "yes 0/10 reset 1s")
}

func backBySecond(x *trial) {
	b := x.bucket("10/s burst 10")
	b.drain()
	x.at(-sec)
	b.wants(1, "no 0/10 retry 100ms reset 1s")
	x.at(-500 * ms)
	b.wants(5, "yes 0/10 reset 1s")
	x.at(-800 * ms)
	b.wants(1, "no 0/10 retry 100ms reset 1s")
	x.at(-750 * ms)
	b.wants(1, "no 0/10 retry 50ms reset 950ms")
	x.at(-700 * ms)
	b.wants(1, "yes 0/10 reset 1s")
}

func logAcrossStep(x *trial) {
	b := x.bucket("3/min sliding-log")
	for range 3 {
		b.take(1)
		x.advance(10 * sec)
	}
	x.at(-time.Hour) // when 30 s have passed since the first
	b.wants(1, "no 0/3 retry 40s reset 1m0s")
	x.advance(40 * sec)
	b.wants(1, "yes 0/3 reset 1m0s")
	b.wants(1, "no 0/3 retry 10s reset 1m0s")
}

func permitsAcrossStep(x *trial) {
	b := x.bucket("1 concurrent ttl 1m")
	c := b.asks(1)
	x.takeAll(c)
	x.at(30 * sec)
	b.wants(1, "no 0/1 retry 30s reset 30s")
	x.at(-time.Hour)
	d := b.take(1)
	if d.Allowed || d.RetryAfter > time.Minute {
		x.Errorf("an hour back: %s", say(d))
	}
	x.advance(d.RetryAfter - us)
	if err := x.store.Renew(x.Context(), c.ID, []tidegate.Charge{b.charge}); err != nil {
		x.Errorf("just before the end: renew: %v", err)
	}
	x.at(-2 * time.Hour)
	if d := b.take(1); d.Allowed || d.RetryAfter > time.Minute {
		x.Errorf("an hour back again: %s", say(d))
	}
}

// randomWalk lets the clock jump about. What is admitted fits into the steps forward.
func randomWalk(x *trial) {
	for range x.h.Rounds {
		r := x.rand
		l := randomLimit(r, "token bucket")
		b := x.bucketOf(l)
		x.at(50 * 365 * day)
		admitted, forward := int64(0), time.Duration(0)
		d := tidegate.Decision{Remaining: l.Capacity()}
		for range 40 {
			cost := randomCost(r, l, d)
			if d = b.take(cost); d.Allowed {
				admitted += cost
			}
			if d.RetryAfter > fillTime(l) && d.RetryAfter != tidegate.Never {
				x.Fatalf("%s: it stalls: %s", b, say(d))
			}
			by := gap(r, l, d)
			if r.IntN(3) == 0 {
				by = -min(by, 365*day)
			} else {
				// Each step forward may fill the bucket and no more, and is rounded to ticks at both ends.
				forward += min(by, fillTime(l)) + x.resolution(l)
			}
			x.advance(by)
		}
		due := new(big.Int).Mul(big.NewInt(l.Rate), big.NewInt(int64(forward/us)))
		due.Div(due, big.NewInt(int64(l.Per/us))).Add(due, big.NewInt(l.Burst))
		if due.Cmp(big.NewInt(admitted)) < 0 {
			x.Fatalf("%s: %d were admitted where %v are due", b, admitted, due)
		}
	}
}
