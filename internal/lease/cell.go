package lease

import (
	"math"
	"time"

	"github.com/tidegate-go/tidegate"
)

// part is the part of a burst that is taken ahead at most: a tenth.
const part = 10

// cell is the lease of one bucket under one limit, and what it needs to know to fetch the next.
type cell struct {
	limit    *tidegate.Limit // as it came last, compared before its value
	value    tidegate.Limit  // normalized
	version  int64
	lifetime int64 // ns
	most     int64 // tokens that a slice has at most

	left  int64 // tokens taken ahead and not spent
	until int64 // ns: when they lapse
	told  int64 // what remained when the store last said
	reset int64 // ns: when the bucket is as good as new, as the store last said

	// What this process used of the bucket, tokens, in windows of a lifetime.
	used, last int64 // in the current one, and in the one before
	windowEnd  int64 // ns

	flight *flight // the call that is about to bring more
}

func newCell(c *tidegate.Charge) *cell {
	v := c.Limit.Normalize()
	return &cell{
		limit: c.Limit, value: v, version: c.Version,
		lifetime: int64(v.Lease),
		most:     v.Burst / int64(max(1, v.Shards)) / part,
		until:    math.MinInt64,
	}
}

// order says how a charge's limit stands to a cell's.
type order uint8

const (
	same  order = iota
	older       // a former limit: the store knows the newer one, too
	other       // a newer one, or another of the same version
)

func (x *cell) compare(c *tidegate.Charge) order {
	switch {
	case c.Version < x.version:
		return older
	case c.Version > x.version:
		return other
	case c.Limit == x.limit:
		return same
	case c.Limit.Normalize() == x.value:
		x.limit = c.Limit
		return same
	}
	return other
}

// suffices reports whether the lease is alive and has so many tokens.
func (x *cell) suffices(now, cost int64) bool { return x.left >= cost && now < x.until }

// spend takes tokens of a lease that suffices.
func (x *cell) spend(now, cost int64) {
	x.left -= cost
	x.use(now, cost)
}

// use counts admitted tokens, whoever admitted them.
func (x *cell) use(now, cost int64) {
	x.roll(now)
	x.used += cost
}

// roll begins a new window if the current one is over.
func (x *cell) roll(now int64) {
	if now < x.windowEnd {
		return
	}
	n := (now - x.windowEnd) / x.lifetime // windows in which nothing was used
	x.last = 0
	if n == 0 {
		x.last = x.used
	}
	x.used = 0
	x.windowEnd += (n + 1) * x.lifetime
}

// slice returns how many tokens to take ahead beside a cost: what was used in a lifetime, if the bucket has as much.
func (x *cell) slice(now, cost int64) int64 {
	x.roll(now)
	s := min(max(x.last, x.used), x.most)
	if s > x.told-cost {
		return 0
	}
	return s
}

// note remembers what the store said of the bucket.
func (x *cell) note(now int64, d *tidegate.Decision) {
	if d.Source != tidegate.SourceStore && d.Source != tidegate.SourceDeniedCache {
		return // whoever stood in for the store does not know
	}
	x.told = d.Remaining
	if x.value.Shards == 0 && d.Limit != x.value.Burst {
		x.told = 0 // it decides under a newer limit, of which nothing is known here
	}
	x.reset = math.MaxInt64
	if int64(d.ResetAfter) < math.MaxInt64-now {
		x.reset = now + int64(d.ResetAfter)
	}
}

// decision describes a take that the lease has just paid for. When the bucket is as good as new is what the store last
// said, as if nobody had taken since; in whole microseconds, as a store says it.
func (x *cell) decision(rule string, now int64) tidegate.Decision {
	d := tidegate.Decision{
		Allowed:   true,
		Source:    tidegate.SourceLease,
		Limit:     x.value.Burst,
		Remaining: x.left,
		Rule:      rule,
	}
	if x.reset > now {
		d.ResetAfter = (time.Duration(x.reset-now) + time.Microsecond - 1).Truncate(time.Microsecond)
	}
	return d
}

// idle reports whether forgetting the cell changes nothing: there is nothing to spend, nothing to come, and nothing was
// used in a time that counts.
func (x *cell) idle(now int64) bool {
	return x.flight == nil && (x.left == 0 || now >= x.until) && now >= x.windowEnd+x.lifetime
}
