package storetest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/tidegate-go/tidegate"
)

// kinds are the shapes that random limits have.
var kinds = []string{"token bucket", "leaky bucket", "warm-up", "fixed window", "sliding window", "sliding log", "permits"}

// randomPeriods are tried beside those that are drawn.
var randomPeriods = []time.Duration{
	ms, 10 * ms, 100 * ms, sec, 1300 * ms, 7 * sec, time.Minute, time.Hour, day, 7 * day, 90 * day,
}

// longest bounds the time that a random bucket takes to fill, so that a round ends before the numbers do.
const longest = 365 * day

// logUniform returns a number from 1 to most whose logarithm is as likely to be small as large.
func logUniform(r *rand.Rand, most int64) int64 {
	return min(most, int64(math.Exp(r.Float64()*math.Log(float64(most)+1))))
}

// randomLimit returns a valid limit of a kind, which fills within a year.
func randomLimit(r *rand.Rand, kind string) *tidegate.Limit {
	for {
		l := tidegate.Limit{Rate: logUniform(r, 1_000_000)}
		if r.IntN(2) == 0 {
			l.Rate = logUniform(r, 50)
		}
		l.Per = randomPeriods[r.IntN(len(randomPeriods))]
		if r.IntN(3) == 0 {
			l.Per = time.Duration(1000+logUniform(r, 100_000_000)) * us
		}
		switch kind {
		case "token bucket":
			l.Burst = logUniform(r, 2*l.Rate+10)
		case "leaky bucket":
			l.Algorithm, l.Queue = tidegate.LeakyBucket, logUniform(r, 100)-1
		case "warm-up":
			l.Burst = logUniform(r, 2*l.Rate+10)
			l.Warmup = 8 * max(ms, l.Per/time.Duration(1+logUniform(r, 1000))).Truncate(ms)
		case "fixed window":
			l.Algorithm = tidegate.FixedWindow
		case "sliding window":
			l.Algorithm, l.Slices = tidegate.SlidingWindow, int(logUniform(r, 12))
		case "sliding log":
			l.Algorithm, l.Rate = tidegate.SlidingLog, logUniform(r, 60)
		case "permits":
			l = tidegate.Limit{Algorithm: tidegate.Concurrency, Rate: logUniform(r, 30), TTL: ms + time.Duration(logUniform(r, 60_000_000))*us}
		}
		if l.Validate() == nil && fillTime(&l) <= longest {
			return &l
		}
	}
}

// gap returns how long to wait before the next take on a bucket whose last decision is d: nothing, what the decision
// named, or anything around the time in which a token or the whole bucket comes back.
func gap(r *rand.Rand, l *tidegate.Limit, d tidegate.Decision) time.Duration {
	switch r.IntN(8) {
	case 0, 1:
		return 0
	case 2:
		if d.RetryAfter != tidegate.Never {
			return d.RetryAfter
		}
		return us
	case 3:
		return d.ResetAfter
	case 4:
		return time.Duration(logUniform(r, int64(fillTime(l)/us))) * us
	}
	token := max(1, int64(fillTime(l)/us)/max(1, l.Capacity()))
	return time.Duration(logUniform(r, 3*token)) * us
}

// fillTime is about how long an empty bucket takes to be full: what a bucket may stall for at most, and a little more.
func fillTime(l *tidegate.Limit) time.Duration {
	switch l.Algorithm {
	case tidegate.Concurrency:
		return l.TTL
	case tidegate.FixedWindow, tidegate.SlidingLog:
		return l.Per
	case tidegate.SlidingWindow:
		return l.Per + l.Per/time.Duration(l.Normalize().Slices)
	case tidegate.TokenBucket, tidegate.LeakyBucket, tidegate.None, tidegate.Unlimited:
	}
	fill := int64(math.Ceil(float64(l.Capacity()) * float64(l.Per/us) / float64(l.Rate)))
	return time.Duration(2*fill+2)*us + l.Warmup
}

// randomCost returns a cost that may pass, or 1.
func randomCost(r *rand.Rand, l *tidegate.Limit, d tidegate.Decision) int64 {
	switch r.IntN(8) {
	case 0:
		return l.Capacity()
	case 1:
		return max(1, d.Remaining)
	case 2:
		return min(l.Capacity(), d.Remaining+1)
	case 3, 4:
		return logUniform(r, l.Capacity())
	}
	return 1
}

// perKind makes a case of each kind that tries a random limit a round, on a bucket of its own each.
func perKind(name, rule string, f func(x *trial, b *bucket), kinds ...string) []testCase {
	var cases []testCase
	for _, kind := range kinds {
		cases = append(cases, testCase{name + "/" + kind, rule, func(x *trial) {
			for range x.h.Rounds {
				x.at(time.Duration(x.rand.Int64N(int64(400*day/us))) * us)
				f(x, x.bucketOf(randomLimit(x.rand, kind)))
			}
		}})
	}
	return cases
}

// stir takes a few random costs at random times and returns the last decision.
func (b *bucket) stir(takes int) tidegate.Decision {
	b.x.Helper()
	r, l := b.x.rand, b.charge.Limit
	d := b.take(1)
	for range takes {
		b.x.advance(gap(r, l, d))
		d = b.take(randomCost(r, l, d))
	}
	return d
}
