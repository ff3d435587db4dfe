package storetest

import (
	"github.com/tidegate-go/tidegate"
)

const (
	ruleRetry     = "RetryAfter is exact to the tick of the limit and never early: then the same cost passes, a tick before it does not"
	ruleReset     = "ResetAfter is exact: then the bucket is as good as new, a tick before it is not"
	ruleRemaining = "Remaining is the largest cost that would pass now"
	ruleNew       = "a bucket that has been idle for ResetAfter is indistinguishable from one that nobody has used"
	ruleExact     = "decisions are exact: no fraction of a token is ever dropped or invented"
)

func exactnessCases() []testCase {
	var cases []testCase
	cases = append(cases, perKind("retry", ruleRetry, retryIsExact, kinds...)...)
	cases = append(cases, perKind("reset", ruleReset, resetIsExact, kinds...)...)
	cases = append(cases, perKind("remaining", ruleRemaining, remainingIsExact, kinds...)...)
	// A bucket that warms up is full after ResetAfter, but as good as new only when it is cold again.
	cases = append(cases, perKind("as good as new", ruleNew, idleIsNew,
		"token bucket", "leaky bucket", "fixed window", "sliding window", "sliding log", "permits")...)
	for _, kind := range kinds {
		if f := models[kind]; f != nil {
			cases = append(cases, perKind("arithmetic", ruleExact, func(x *trial, b *bucket) {
				compare(x, b, f(x, b.charge.Limit))
			}, kind)...)
		}
	}
	return cases
}

func retryIsExact(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	tick := x.resolution(l)
	b.stir(r.IntN(12))
	cost := min(l.Capacity(), b.take(0).Remaining+1+r.Int64N(l.Capacity()))
	d := b.take(cost)
	if d.Allowed {
		return // there was room for all
	}
	if d.RetryAfter == tidegate.Never {
		x.Fatalf("%s: a cost of %d: %s", b, cost, say(d))
	}
	x.advance(d.RetryAfter - tick)
	if early := b.take(cost); tick <= d.RetryAfter && early.Allowed {
		x.Fatalf("%s: a cost of %d: %s: it passed %v too early", b, cost, say(d), tick)
	} else if !early.Allowed && (early.RetryAfter <= 0 || early.RetryAfter > tick) {
		x.Errorf("%s: a cost of %d: %s, then %v before that %s", b, cost, say(d), tick, say(early))
	}
	x.advance(tick)
	if late := b.take(cost); !late.Allowed {
		x.Fatalf("%s: a cost of %d: %s, and then %s", b, cost, say(d), say(late))
	}
}

func resetIsExact(x *trial, b *bucket) {
	tick := x.resolution(b.charge.Limit)
	d := b.stir(x.rand.IntN(12))
	x.advance(d.ResetAfter - tick)
	if early := b.take(0); d.ResetAfter >= tick && (early.ResetAfter <= 0 || early.ResetAfter > tick) {
		x.Errorf("%s: %s, then %v before that %s", b, say(d), tick, say(early))
	}
	x.advance(tick)
	if late := b.take(0); late.ResetAfter != 0 || late.Remaining != late.Limit || !late.Allowed {
		x.Errorf("%s: %s, and then %s", b, say(d), say(late))
	}
}

func remainingIsExact(x *trial, b *bucket) {
	d := b.stir(x.rand.IntN(12))
	x.advance(gap(x.rand, b.charge.Limit, d))
	d = b.take(0)
	if more := b.take(d.Remaining + 1); more.Allowed {
		x.Fatalf("%s: %s, then a cost of %d: %s", b, say(d), d.Remaining+1, say(more))
	}
	if d.Remaining > 0 {
		if all := b.take(d.Remaining); !all.Allowed || all.Remaining != 0 {
			x.Fatalf("%s: %s, then a cost of %d: %s", b, say(d), d.Remaining, say(all))
		}
	}
}

func idleIsNew(x *trial, b *bucket) {
	d := b.stir(x.rand.IntN(12))
	x.advance(d.ResetAfter)
	fresh := x.bucketOf(b.charge.Limit)
	for range 8 {
		cost := randomCost(x.rand, b.charge.Limit, d)
		d = fresh.take(cost)
		b.wants(cost, say(d))
		x.advance(gap(x.rand, b.charge.Limit, d))
	}
}

// model is an algorithm reckoned another way, slowly: with fractions, or from the list of all takes.
type model interface {
	// decide charges a cost at a moment in µs since the epoch, and returns the decision.
	decide(now, cost int64) tidegate.Decision
}

// compare takes at random and wants the decisions of the model.
func compare(x *trial, b *bucket, m model) {
	r, l := x.rand, b.charge.Limit
	d := tidegate.Decision{Remaining: l.Capacity()}
	for range 20 + r.IntN(20) {
		cost := randomCost(r, l, d)
		switch r.IntN(12) {
		case 0:
			cost = 0
		case 1:
			cost = l.Capacity() + 1
		case 2:
			if l.Algorithm == tidegate.TokenBucket && l.Warmup == 0 {
				cost = -cost
			}
		}
		want := m.decide(x.now().UnixMicro(), cost)
		d = b.take(cost)
		if say(d) != say(want) {
			x.Fatalf("%s: a cost of %d: got %s, want %s", b, cost, say(d), say(want))
		}
		x.advance(gap(r, l, d))
	}
}
