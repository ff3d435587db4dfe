package algo

import (
	"math/bits"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A bucket that does not warm up is what most takes are of. For it [Params.Load], [Params.Take] and [Params.Describe] come to
// a few multiplications, which this file does at once. What goes in and out is small enough to travel in registers.

// Plain is the state of a bucket that does not warm up.
type Plain struct {
	Used int64 // units in use; 0 in a bucket that nobody has used
	Tick int64 // the tick up to which it was refilled
}

// Charged is what came of a charge to a Plain.
type Charged struct {
	OK    bool
	over  int64 // units that were asked for beyond what can be used at once
	in    int64 // units in use after the take
	since int64 // µs since the tick began
}

// ChargePlain charges a cost to a bucket that does not warm up, without a MaxWait, as Load and Take do; the state changes if
// the charge is made. It reports false where it takes these to decide: for limits of other kinds, peeks, refunds, costs
// above capacity, and a clock that has gone back.
func (p *Params) ChargePlain(s Plain, cost, now int64) (after Plain, c Charged, ok bool) {
	const end = 1 << 53
	if !p.plain || cost < 1 || cost > p.Capacity || uint64(now) >= end {
		return s, c, false
	}
	t := p.perTick.div(now)
	if s.Tick > t {
		return s, c, false
	}
	c.since = now - t*p.tick
	if hi, back := bits.Mul64(uint64(t-s.Tick), uint64(p.gain)); hi == 0 && back < uint64(s.Used) {
		c.in = s.Used - int64(back)
	}
	charged := c.in + cost*p.cost
	c.over = charged - p.size
	if c.OK = c.over <= p.debt; c.OK {
		c.in = charged
		return Plain{charged, t}, c, true
	}
	return s, c, true
}

// TellPlain says what the take is told, as Take and Describe do.
func (p *Params) TellPlain(c Charged) (o tidegate.Outcome, w tidegate.Waits) {
	o.Allowed = c.OK
	o.Limit = p.Capacity
	o.Remaining = p.perCost.div(max(0, p.size+p.debt-c.in))
	switch {
	case !c.OK:
		w.RetryAfter = p.emptied(c.over-p.debt, c.since)
	case c.over > 0:
		w.Delay = p.emptied(c.over, c.since)
	}
	if c.in > 0 {
		w.ResetAfter = p.emptied(c.in, c.since)
	}
	return o, w
}

// emptied returns how long, from so many µs after the beginning of a tick, so many units take to come back. No plain bucket
// takes a time that a Duration has no room for.
func (p *Params) emptied(units, since int64) time.Duration {
	return time.Duration(p.perGain.div(units+p.gain-1)*p.tick-since) * time.Microsecond
}
