package storetest

import (
	"math/big"
	"time"

	"github.com/tidegate-go/tidegate"
)

// models are the kinds that are reckoned twice.
var models = map[string]func(*trial, *tidegate.Limit) model{
	"token bucket": newBucketModel,
	"leaky bucket": newBucketModel,
	"warm-up":      newWarmModel,
	"fixed window": func(_ *trial, l *tidegate.Limit) model {
		return &windowModel{n: l.Rate, width: int64(l.Per / us), counts: map[int64]int64{}}
	},
	"sliding window": func(x *trial, l *tidegate.Limit) model {
		tick := int64(x.resolution(l) / us)
		k := int64(l.Normalize().Slices)
		return &slidingModel{n: l.Rate, tick: tick, slices: k, width: int64(l.Per/us) / tick / k, counts: map[int64]int64{}}
	},
	"sliding log": func(_ *trial, l *tidegate.Limit) model { return &logModel{n: l.Rate, width: int64(l.Per / us)} },
}

// answer makes a decision of times in µs; a retry below 0 is never.
func answer(ok bool, limit, remaining, retry, reset, delay int64) tidegate.Decision {
	d := tidegate.Decision{Allowed: ok, Limit: limit, Remaining: remaining}
	d.ResetAfter, d.Delay = time.Duration(reset)*us, time.Duration(delay)*us
	if d.RetryAfter = time.Duration(retry) * us; retry < 0 {
		d.RetryAfter = tidegate.Never
	}
	return d
}

// bucketModel is a token bucket or leaky bucket in fractions of tokens.
type bucketModel struct {
	size, queue int64
	tick        int64    // µs
	gain        *big.Rat // tokens a tick
	used        *big.Rat // tokens
	at          int64    // tick
}

func newBucketModel(x *trial, l *tidegate.Limit) model {
	m := &bucketModel{size: l.Normalize().Burst, queue: l.Queue, tick: int64(x.resolution(l) / us), used: new(big.Rat)}
	if l.Algorithm == tidegate.LeakyBucket {
		m.size = 1
	}
	m.gain = big.NewRat(l.Rate, int64(l.Per/us)/m.tick)
	return m
}

func (m *bucketModel) decide(now, cost int64) tidegate.Decision {
	t := now / m.tick
	m.used.Sub(m.used, new(big.Rat).Mul(m.gain, big.NewRat(t-m.at, 1)))
	m.at = t
	if m.used.Sign() < 0 {
		m.used.SetInt64(0)
	}
	until := func(tokens *big.Rat) int64 { // µs until so many have come back
		if tokens.Sign() <= 0 {
			return 0
		}
		ticks := new(big.Rat).Quo(tokens, m.gain)
		n := new(big.Int).Add(ticks.Num(), new(big.Int).Sub(ticks.Denom(), big.NewInt(1)))
		return (t+n.Div(n, ticks.Denom()).Int64())*m.tick - now
	}
	ok, retry, delay := true, int64(0), int64(0)
	over := new(big.Rat).Add(m.used, big.NewRat(max(cost, 1)-m.size, 1))
	late := new(big.Rat).Sub(over, big.NewRat(m.queue, 1))
	switch {
	case cost < 0:
		if m.used.Add(m.used, big.NewRat(cost, 1)); m.used.Sign() < 0 {
			m.used.SetInt64(0)
		}
	case cost > m.size+m.queue:
		ok, retry = false, -1
	case late.Sign() > 0:
		ok, retry = false, until(late)
	default:
		delay = until(over)
		m.used.Add(m.used, big.NewRat(cost, 1))
	}
	left := new(big.Rat).Sub(big.NewRat(m.size+m.queue, 1), m.used)
	remaining := new(big.Int).Quo(left.Num(), left.Denom()).Int64()
	return answer(ok, m.size+m.queue, remaining, retry, until(m.used), delay)
}

// warmModel is a token bucket that warms up, in fractions of tokens.
type warmModel struct {
	size, tick, step int64 // tokens, µs, ticks
	gain             *big.Rat
	begun            bool
	cold, at         int64    // ticks: when the climb began, and when used was reckoned
	used             *big.Rat // tokens
}

func newWarmModel(x *trial, l *tidegate.Limit) model {
	m := &warmModel{size: l.Normalize().Burst, tick: int64(x.resolution(l) / us), used: new(big.Rat)}
	m.step = int64(l.Warmup/us) / m.tick / 8
	m.gain = big.NewRat(l.Rate, int64(l.Per/us)/m.tick)
	return m
}

// walk goes through the steps of the climb from a tick on, as long as next says so: it is told the tokens a tick that come
// back up to a tick, or for ever where that is 0.
func (m *warmModel) walk(from int64, next func(gain *big.Rat, from, to int64) bool) {
	for i := (from - m.cold) / m.step; i < 8; i++ {
		to := m.cold + (i+1)*m.step
		if !next(new(big.Rat).Mul(m.gain, big.NewRat(4+i, 12)), from, to) {
			return
		}
		from = to
	}
	next(m.gain, from, 0)
}

// until returns how many ticks after from tokens have come back.
func (m *warmModel) until(tokens *big.Rat, from int64) (ticks int64) {
	left := new(big.Rat).Set(tokens)
	begin := from
	m.walk(from, func(gain *big.Rat, from, to int64) bool {
		need := new(big.Rat).Quo(left, gain)
		n := new(big.Int).Add(need.Num(), new(big.Int).Sub(need.Denom(), big.NewInt(1)))
		whole := max(0, n.Div(n, need.Denom()).Int64())
		if ticks = from + whole - begin; to == 0 || from+whole <= to {
			return false
		}
		left.Sub(left, new(big.Rat).Mul(gain, big.NewRat(to-from, 1)))
		return true
	})
	return ticks
}

func (m *warmModel) decide(now, cost int64) tidegate.Decision {
	t := now / m.tick
	before, used := *m, new(big.Rat).Set(m.used)
	if !m.begun || t >= m.at+m.until(m.used, m.at)+8*m.step {
		m.begun, m.cold = true, t
		m.used.SetInt64(m.size)
		if cost != 0 {
			before, used = *m, new(big.Rat).Set(m.used) // the climb begins, whatever is decided
			before.at = t
		}
	} else {
		m.walk(m.at, func(gain *big.Rat, from, to int64) bool {
			end := t
			if to > 0 {
				end = min(t, to)
			}
			m.used.Sub(m.used, new(big.Rat).Mul(gain, big.NewRat(end-from, 1)))
			return end < t
		})
		if m.used.Sign() < 0 {
			m.used.SetInt64(0)
		}
	}
	m.at = t
	wait := func(tokens *big.Rat) int64 {
		if tokens.Sign() <= 0 {
			return 0
		}
		return (t+m.until(tokens, t))*m.tick - now
	}
	ok, retry := true, int64(0)
	over := new(big.Rat).Add(m.used, big.NewRat(max(cost, 1)-m.size, 1))
	switch {
	case cost > m.size:
		ok, retry = false, -1
	case over.Sign() > 0:
		ok, retry = false, wait(over)
	default:
		m.used.Add(m.used, big.NewRat(cost, 1))
	}
	left := new(big.Rat).Sub(big.NewRat(m.size, 1), m.used)
	d := answer(ok, m.size, new(big.Int).Quo(left.Num(), left.Denom()).Int64(), retry, wait(m.used), 0)
	if !ok || cost == 0 { // nothing is kept but the beginning of a climb
		*m = before
		m.used.Set(used)
	}
	return d
}

// windowModel counts in windows since the epoch.
type windowModel struct {
	n, width int64
	counts   map[int64]int64
}

func (m *windowModel) decide(now, cost int64) tidegate.Decision {
	i := now / m.width
	end := (i+1)*m.width - now
	ok, retry := true, int64(0)
	switch {
	case cost > m.n:
		ok, retry = false, -1
	case m.counts[i]+max(cost, 1) > m.n:
		ok, retry = false, end
	default:
		m.counts[i] += cost
	}
	reset := int64(0)
	if m.counts[i] > 0 {
		reset = end
	}
	return answer(ok, m.n, m.n-m.counts[i], retry, reset, 0)
}

// slidingModel looks for the first moment at which a take fits by trying every slice.
type slidingModel struct {
	n, tick, slices, width int64
	counts                 map[int64]int64
	newest                 int64
}

// free returns n less the weighted count at a tick, times the width.
func (m *slidingModel) free(t int64) int64 {
	i := t / m.width
	free := m.n * m.width
	for j := i - m.slices + 1; j <= i; j++ {
		free -= m.counts[j] * m.width
	}
	return free - m.counts[i-m.slices]*((i+1)*m.width-t)
}

func (m *slidingModel) decide(now, cost int64) tidegate.Decision {
	t := now / m.tick
	ok, retry := true, int64(0)
	want := max(cost, 1) * m.width
	switch {
	case cost > m.n:
		ok, retry = false, -1
	case m.free(t) < want:
		ok = false
		from := t
		for m.free((from/m.width+1)*m.width-1) < want { // the last tick of the slice
			from = (from/m.width + 1) * m.width
		}
		last := (from/m.width+1)*m.width - 1
		for from < last { // within a slice, more and more is free
			if mid := (from + last) / 2; m.free(mid) >= want {
				last = mid
			} else {
				from = mid + 1
			}
		}
		retry = from*m.tick - now
	case cost > 0:
		m.counts[t/m.width] += cost
		m.newest = t / m.width
	}
	reset := max(0, (m.newest+m.slices+1)*m.width*m.tick-now)
	if m.newest == 0 {
		reset = 0
	}
	return answer(ok, m.n, m.free(t)/m.width, retry, reset, 0)
}

// logModel keeps all takes and counts those that are not as old as the window.
type logModel struct {
	n, width int64
	at, cost []int64
}

func (m *logModel) decide(now, cost int64) tidegate.Decision {
	live := func(t int64) (sum int64) {
		for i, at := range m.at {
			if at+m.width > t {
				sum += m.cost[i]
			}
		}
		return sum
	}
	ok, retry := true, int64(0)
	switch {
	case cost > m.n:
		ok, retry = false, -1
	case live(now)+max(cost, 1) > m.n:
		ok = false
		for _, at := range m.at { // oldest first
			if leaves := at + m.width; leaves > now && live(leaves)+max(cost, 1) <= m.n {
				retry = leaves - now
				break
			}
		}
	case cost > 0:
		m.at, m.cost = append(m.at, now), append(m.cost, cost)
	}
	reset := int64(0)
	if live(now) > 0 {
		reset = m.at[len(m.at)-1] + m.width - now
	}
	return answer(ok, m.n, m.n-live(now), retry, reset, 0)
}
