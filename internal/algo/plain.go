package algo

import "math/bits"

// A bucket that does not warm up is what most takes are of. For it [Params.Load], [Params.Take] and [Params.Describe] come to
// a few multiplications, which this file does at once and without a copy of the state.

// Plain is the state of a bucket that does not warm up, and what a take of it is told, in µs from now.
type Plain struct {
	Used int64 // units in use; 0 in a bucket that nobody has used
	Tick int64 // the tick up to which it was refilled

	OK        bool
	Delay     int64
	Retry     int64
	Remaining int64
	Reset     int64
}

// TakePlain charges a cost to a bucket that does not warm up, without a MaxWait, as Load, Take and Describe in turn do, and
// changes Used and Tick if the charge is made. It reports false, and does nothing, where it takes these to decide: for
// limits of other kinds, peeks, refunds, costs above capacity, and a clock that has gone back.
func (p *Params) TakePlain(s *Plain, cost, now int64) bool {
	const end = 1 << 53
	if !p.plain || cost < 1 || cost > p.Capacity || uint64(now) >= end {
		return false
	}
	t := p.perTick.div(now)
	if s.Tick > t {
		return false
	}
	used := int64(0)
	if hi, back := bits.Mul64(uint64(t-s.Tick), uint64(p.gain)); hi == 0 && back < uint64(s.Used) {
		used = s.Used - int64(back)
	}
	since := now - t*p.tick // the tick began
	charged := used + cost*p.cost
	over := charged - p.size
	s.OK, s.Delay, s.Retry, s.Reset = over <= p.debt, 0, 0, 0
	switch {
	case !s.OK:
		s.Retry = p.drain(over-p.debt) - since
	case over > 0:
		s.Delay = p.drain(over) - since
	}
	if s.OK {
		s.Used, s.Tick = charged, t
		used = charged
	}
	s.Remaining = p.perCost.div(max(0, p.size+p.debt-used))
	if used > 0 {
		s.Reset = p.drain(used) - since
	}
	return true
}

// drain returns how long, in µs from the beginning of a tick, so many units take to come back.
func (p *Params) drain(units int64) int64 {
	return p.perGain.div(units+p.gain-1) * p.tick
}
