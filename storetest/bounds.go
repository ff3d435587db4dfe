package storetest

import (
	"fmt"
	"math/big"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleUpper = "in every interval of t whole ticks at most B + ⌊L·t/P⌋ are admitted"
	ruleLower = "cost 1, asked at gaps of at most (B-1)·P/L, is admitted all of B + ⌊L·t/P⌋ but one"
	ruleStart = "what is reserved keeps the bound at the times at which it starts"
	ruleSpace = "a leaky bucket's takes start P/L apart, to the tick"
	ruleSides = "a sliding window is off by at most one slice, either way"
	ruleNoW   = "no interval of the length of a sliding log's window ever holds more than N"
)

func boundCases() []testCase {
	var cases []testCase
	cases = append(cases, perKind("upper", ruleUpper, upperBound, "token bucket")...)
	cases = append(cases, perKind("lower", ruleLower, lowerBound, "token bucket")...)
	cases = append(cases, perKind("starts", ruleStart, startsBound, "token bucket")...)
	cases = append(cases, perKind("spacing", ruleSpace, spacing, "leaky bucket")...)
	cases = append(cases, perKind("upper", ruleUpper, upperBound, "warm-up")...)
	cases = append(cases, perKind("slices", ruleSides, slicesBound, "sliding window")...)
	cases = append(cases, perKind("interval", ruleNoW, logBound, "sliding log")...)
	return cases
}

// admission is what was admitted at a moment.
type admission struct {
	at   time.Time
	cost int64
}

// accrued returns ⌊L·t/P⌋ for a time.
func accrued(l *tidegate.Limit, t time.Duration) int64 {
	n := new(big.Int).Mul(big.NewInt(l.Rate), big.NewInt(int64(t)))
	return n.Div(n, big.NewInt(int64(l.Per))).Int64()
}

// overBound looks through all intervals that begin and end with an admission, in order of time, for one that holds more
// than the burst and what accrues in its ticks, and in as many more as slack says. It says which, or nothing.
func overBound(l *tidegate.Limit, tick time.Duration, trace []admission, slack int64) string {
	whole := func(t time.Time) time.Duration { return time.Duration(t.UnixMicro()/int64(tick/us)) * tick }
	burst := l.Normalize().Burst
	if l.Algorithm == tidegate.LeakyBucket {
		burst = 1
	}
	for i := range trace {
		sum := int64(0)
		for _, a := range trace[i:] {
			sum += a.cost
			t := whole(a.at) - whole(trace[i].at)
			if most := burst + accrued(l, t+time.Duration(slack)*tick); sum > most {
				return fmt.Sprintf("%d were admitted in the %v after %v: at most %d are due", sum, t, trace[i].at, most)
			}
		}
	}
	return ""
}

func upperBound(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	var trace []admission
	d := tidegate.Decision{Remaining: l.Capacity()}
	for range 60 {
		cost := randomCost(r, l, d)
		if d = b.take(cost); d.Allowed {
			trace = append(trace, admission{x.now(), cost})
		}
		x.advance(gap(r, l, d))
	}
	if over := overBound(l, x.resolution(l), trace, 0); over != "" {
		x.Fatalf("%s: %s", b, over)
	}
}

func lowerBound(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	if l.Burst > 40 {
		small := *l
		small.Burst = 2 + r.Int64N(39)
		if small.Validate() != nil {
			return
		}
		l = &small
		b = x.bucketOf(l)
	}
	tick := x.resolution(l)
	widest := big.NewInt(int64(l.Per / us))
	widest.Mul(widest, big.NewInt(l.Burst-1)).Div(widest, big.NewInt(l.Rate))
	from := x.now()
	admitted := b.admit(100)
	for range 20 {
		x.advance(time.Duration(r.Int64N(widest.Int64()+1)) * us)
		admitted += b.admit(100)
	}
	t := time.Duration(x.now().UnixMicro()/int64(tick/us)-from.UnixMicro()/int64(tick/us)) * tick
	if due := l.Burst + accrued(l, t); admitted < due-1 || admitted > due {
		x.Fatalf("%s: %d were admitted in %v: %d are due", b, admitted, t, due)
	}
}

// startsBound reserves and takes by turns. A start is rounded up to the tick, and may have that tick's accrual.
func startsBound(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	var trace []admission
	last := time.Time{}
	d := tidegate.Decision{Remaining: l.Capacity()}
	for range 40 {
		cost := randomCost(r, l, d)
		_, d = b.reserve(cost, time.Duration(r.Int64N(int64(fillTime(l)/us)+1))*us, 0)
		if d.Allowed {
			start := x.now().Add(d.Delay)
			if start.Before(last) {
				x.Fatalf("%s: a take starts at %v, before one that came earlier and starts at %v", b, start, last)
			}
			last = start
			trace = append(trace, admission{start, cost})
		}
		x.advance(gap(r, l, d))
	}
	if over := overBound(l, x.resolution(l), trace, 1); over != "" {
		x.Fatalf("%s: %s", b, over)
	}
}

func spacing(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	tick := x.resolution(l)
	apart := time.Duration(accrued(&tidegate.Limit{Rate: int64(l.Per / us), Per: time.Duration(l.Rate)}, 1)) * us // ⌊P/L⌋
	last := time.Time{}
	for range 60 {
		if d := b.take(1); d.Allowed {
			start := x.now().Add(d.Delay)
			if start.Sub(last) < apart-tick {
				x.Fatalf("%s: two takes start %v apart: %v are due", b, start.Sub(last), apart)
			}
			last = start
		} else if d.RetryAfter > apart+2*tick {
			x.Fatalf("%s: refused for %v: a place is free after %v at most", b, d.RetryAfter, apart)
		}
		x.advance(time.Duration(r.Int64N(int64(2*apart/us)+2)) * us)
	}
}

// held returns what was admitted after from up to to.
func held(trace []admission, from, to time.Time) (sum int64) {
	for _, a := range trace {
		if a.at.After(from) && !a.at.After(to) {
			sum += a.cost
		}
	}
	return sum
}

func slicesBound(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	slice := l.Per / time.Duration(l.Normalize().Slices)
	var trace []admission
	d := tidegate.Decision{Remaining: l.Capacity()}
	for range 60 {
		cost := randomCost(r, l, d)
		now := x.now()
		if d = b.take(cost); d.Allowed {
			trace = append(trace, admission{now, cost})
			if n := held(trace, now.Add(slice-l.Per-us), now); n > l.Rate {
				x.Fatalf("%s: %d were admitted in %v, a slice less than the window", b, n, l.Per-slice)
			}
		} else if n := held(trace, now.Add(-slice-l.Per), now); n+cost <= l.Rate {
			x.Fatalf("%s: a cost of %d was refused where %d were admitted in %v, a slice more than the window", b, cost, n, l.Per+slice)
		}
		x.advance(gap(r, l, d))
	}
}

func logBound(x *trial, b *bucket) {
	r, l := x.rand, b.charge.Limit
	var trace []admission
	d := tidegate.Decision{Remaining: l.Capacity()}
	for range 60 {
		cost := randomCost(r, l, d)
		n := held(trace, x.now().Add(-l.Per), x.now())
		if d = b.take(cost); d.Allowed != (n+cost <= l.Rate) {
			x.Fatalf("%s: a cost of %d after %d in %v: %s", b, cost, n, l.Per, say(d))
		}
		if d.Allowed {
			trace = append(trace, admission{x.now(), cost})
		}
		x.advance(gap(r, l, d))
	}
}
