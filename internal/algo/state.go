package algo

import (
	"slices"

	"github.com/tidegate-go/tidegate"
)

// State is what a bucket remembers. The zero State is a bucket that nobody has used. Which meaning a, b and c have is
// told by the kind; a copy of a State shares the lists behind it, which only [Params.Take], [Params.Settle],
// [Params.Release] and [Params.Renew] change: [State.Clone] makes one that shares nothing.
type State struct {
	a, b, c int64
	lists   *lists
	used    bool // not the zero State
}

// lists are the parts of a state that have no fixed size.
type lists struct {
	ring    []int64  // sliding window: counts of the slices, newest first
	log     []entry  // sliding log, oldest first
	permits []permit // permits, the first to expire first
}

// Clone returns a copy that shares nothing.
func (s *State) Clone() State {
	c := *s
	if s.lists != nil {
		c.lists = &lists{slices.Clone(s.lists.ring), slices.Clone(s.lists.log), slices.Clone(s.lists.permits)}
	}
	return c
}

// Used reports whether anything is remembered; a State that is not Used can be forgotten.
func (s *State) Used() bool { return s.used }

// Flat returns the two numbers that a state comes to, neither negative and both below 2^53, if it has no more to it, as
// that of most buckets has not; [Flat] makes the state of them again. The state is one that is used.
func (s *State) Flat() (a, b int64, ok bool) {
	const end = 1 << 53
	return s.a, s.b, s.c == 0 && s.lists == nil && uint64(s.a) < end && uint64(s.b) < end
}

// Flat returns the state of the numbers that [State.Flat] returned.
func Flat(a, b int64) State { return State{a: a, b: b, used: true} }

// Request is what a charge asks.
type Request struct {
	Cost    int64
	MaxWait int64 // µs
	ID      string
}

// Verdict is what a charge is told, in µs from now.
type Verdict struct {
	OK     bool
	Delay  int64 // how long an allowed take waits
	Retry  int64 // when a refused one can pass; Never if it cannot
	Window int64 // names the window that was charged, for Settle
}

// Load brings the state to the present without charging, and reports whether that must be kept even if nothing is
// charged: the bucket's time was ahead of the clock, or a cold bucket begins to warm up.
func (p *Params) Load(s *State, now int64, w Window) (keep bool) {
	switch p.Kind {
	case Bucket:
		return p.bucketLoad(s, now)
	case Fixed:
		return p.fixedLoad(s, now, w)
	case Sliding:
		return p.slidingLoad(s, now)
	case Log, Permits:
		return shiftedLoad(s, now)
	case None, Unlimited:
	}
	return false
}

// Take charges the cost to a loaded state if there is room, and changes nothing else. A cost of 0 is a peek, and a
// negative one a refund, which never fails.
func (p *Params) Take(s *State, r Request, now int64, w Window) Verdict {
	if r.Cost < 0 {
		p.refund(s, -max(r.Cost, -top), now)
		return Verdict{OK: true}
	}
	v := p.Check(s, r, now, w)
	if v.OK && r.Cost > 0 {
		p.charge(s, r, now, v)
		s.used = true
	}
	return v
}

// Check answers as [Params.Take] does and changes nothing. For a cost of 0 it answers for a cost of 1.
func (p *Params) Check(s *State, r Request, now int64, w Window) Verdict {
	switch {
	case r.Cost < 0:
		return Verdict{OK: true}
	case r.Cost == 0:
		r.Cost = 1
	}
	if r.Cost > p.Capacity {
		return Verdict{Retry: Never}
	}
	switch p.Kind {
	case Bucket:
		return p.bucketCheck(s, r, now)
	case Fixed:
		return p.fixedCheck(s, r, now, w)
	case Sliding:
		return p.slidingCheck(s, r, now)
	case Log:
		return p.logCheck(s, r, now)
	case Permits:
		return p.permitsCheck(s, r, now)
	case None, Unlimited:
	}
	return Verdict{OK: true}
}

func (p *Params) charge(s *State, r Request, now int64, v Verdict) {
	switch p.Kind {
	case Bucket:
		s.a += r.Cost * p.cost
	case Fixed:
		if v.Delay == 0 {
			s.b += r.Cost
		} else {
			s.c += r.Cost
		}
	case Sliding:
		p.slidingCharge(s, r.Cost, v.Window)
	case Log:
		p.logCharge(s, r.Cost, now)
	case Permits:
		p.permitsCharge(s, r, now)
	case None, Unlimited:
	}
}

// refund gives n tokens back to a loaded state, n positive, never above capacity. Permits are given back by
// [Params.Release].
func (p *Params) refund(s *State, n, now int64) {
	switch p.Kind {
	case Bucket:
		p.bucketRefund(s, n)
	case Fixed:
		s.b -= min(s.b, n)
		s.used = s.b > 0 || s.c > 0
	case Sliding:
		p.slidingRefund(s, n)
	case Log:
		p.logRefund(s, n, now)
	case Permits, None, Unlimited:
	}
}

// Settle changes what a reservation charged to a loaded state from reserved to cost. Window is its verdict's, capacity
// that of the limit it was made under, and same says whether the bucket still counts as it did then.
func (p *Params) Settle(s *State, reserved, cost, window, capacity int64, same bool, w Window) {
	rest, excess := reserved-cost, cost-reserved
	if rest > 0 && capacity != p.Capacity {
		rest = mulDiv(rest, p.Capacity, capacity, false) // as what was charged was carried over
	}
	switch p.Kind {
	case Bucket:
		if excess > 0 {
			s.a = min(p.most, s.a+min(excess, p.most/p.cost)*p.cost)
			s.used = true
		} else if same {
			p.bucketRefund(s, rest)
		}
	case Fixed:
		switch {
		case excess > 0:
			s.b = min(top, s.b+min(excess, top))
			s.used = true
		case same && window == s.a:
			s.b -= min(s.b, rest)
		case same && window == w.after(s.a):
			s.c -= min(s.c, rest)
		}
		s.used = s.b > 0 || s.c > 0
	case Sliding:
		p.slidingSettle(s, rest, excess, window, same)
	case Log, Permits, None, Unlimited: // have no reservations
	}
}

// Describe fills in the limit, what remains and when the bucket is as good as new, of a loaded state.
func (p *Params) Describe(s *State, now int64, w Window) (remaining, reset int64) {
	switch p.Kind {
	case Bucket:
		return p.bucketDescribe(s, now)
	case Fixed:
		return p.fixedDescribe(s, now, w)
	case Sliding:
		return p.slidingDescribe(s, now)
	case Log:
		return p.logDescribe(s, now)
	case Permits:
		return p.permitsDescribe(s, now)
	case None:
		return 0, Never
	case Unlimited:
	}
	return tidegate.NoLimit, 0
}

// Usage returns which share of a loaded state is in use, as used of capacity.
func (p *Params) Usage(s *State, now int64) (used, capacity int64) {
	switch p.Kind {
	case Bucket:
		return s.a, p.size + p.debt
	case Fixed:
		return min(top, s.b+s.c), p.n
	case Sliding:
		return p.slidingUsed(s, now), p.n * p.width
	case Log:
		_, _, live := p.logLive(s, now)
		return live, p.n
	case Permits:
		return int64(len(s.held()) - permitsExpired(s, now)), p.n
	case None, Unlimited:
	}
	return 0, 1
}

// Convert turns a state that was kept under the limit old into one under p. The limit was changed at change (µs): a
// bucket refills at the old rate until then and at the new one since. The share in use carries over, rounded down, or up
// where two replicas disagree about a limit of one version, so that their disagreement grants nothing.
func (p *Params) Convert(old *Params, s *State, change, now int64, w Window, up bool) {
	if !s.used {
		*s = State{}
		return
	}
	switch {
	case p.Kind == Permits && old.Kind == Permits:
		return // those in flight stay in flight, each for the time that it was given
	case p.Kind == Bucket && old.Kind == Bucket:
		p.bucketConvert(old, s, min(change, now), up)
		return
	}
	if old.Kind == Fixed {
		// Lua does not know the old calendar, so that neither asks: what was reserved for the next window counts as
		// reserved for this one, once the old one is over.
		if s.a <= now {
			s.b, s.c = s.c, 0
		}
	} else {
		old.Load(s, now, Window{})
	}
	switch {
	case p.Kind == Fixed && old.Kind == Fixed:
		s.b, s.c = mulDiv(s.b, p.n, old.n, up), mulDiv(s.c, p.n, old.n, up)
		if p.width != old.width || p.calendar != old.calendar || p.zone.String() != old.zone.String() || s.a <= now {
			s.a = w.End
		}
		s.used = s.b > 0 || s.c > 0
		return
	case p.Kind == Sliding && old.Kind == Sliding && p.width*p.tick == old.width*old.tick && p.slices == old.slices:
		p.slidingScale(old, s, up)
		return
	case p.Kind == Log && old.Kind == Log && p.width == old.width:
		p.logScale(old, s, now, up)
		return
	}
	used, capacity := old.Usage(s, now)
	*s = State{}
	if used == 0 || old.Kind == Permits {
		return // what is in flight is not spent
	}
	p.seed(s, used, capacity, now, w, up)
}

// seed makes a state of which used of capacity is in use now.
func (p *Params) seed(s *State, used, capacity, now int64, w Window, up bool) {
	switch p.Kind {
	case Bucket:
		s.a, s.b = min(p.most, mulDiv(used, p.size+p.debt, capacity, up)), now/p.tick
		s.c = s.b - p.step*steps // as warm as can be
		s.used = s.a > 0 || p.step > 0
	case Fixed:
		s.a, s.b = w.End, mulDiv(used, p.n, capacity, up)
		s.used = s.b > 0
	case Sliding:
		if n := min(2*p.n, mulDiv(used, p.n, capacity, up)); n > 0 {
			p.slidingLoad(s, now)
			p.slidingCharge(s, n, s.a)
			s.used = true
		}
	case Log:
		if n := mulDiv(used, p.n, capacity, up); n > 0 {
			shiftedLoad(s, now)
			p.logCharge(s, n, now)
			s.used = true
		}
	case Permits, None, Unlimited:
	}
}

// IdleAt returns when, in µs, the state is as good as none and can be forgotten, if nobody takes.
func (p *Params) IdleAt(s *State, now int64, w Window) int64 {
	switch p.Kind {
	case Bucket:
		return p.bucketIdleAt(s)
	case Fixed:
		if s.c > 0 && s.a >= w.Start { // the window that is reserved is not over
			return w.after(s.a)
		}
		return s.a
	case Sliding, Log, Permits:
		_, reset := p.Describe(s, now, w)
		return now + reset
	case None, Unlimited:
	}
	return now
}
