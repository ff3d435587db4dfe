package guard

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/downstream"
	"github.com/tidegate-go/tidegate/rules"
)

// Admit implements [rules.Guard].
func (g *Guard) Admit(matched []rules.Matched) (tidegate.Decision, bool) {
	bs := g.breakers.Load()
	if len(bs.byRule) == 0 {
		return tidegate.Decision{}, true
	}
	// First what needs nothing counted, so that what is refused uses up no trial and no token.
	worst, refused, tightened := bs.refuses(matched)
	if refused {
		return worst, false
	}
	if tightened {
		if d := g.charge(bs, matched, 1); !d.Allowed {
			return d, false
		}
	}
	for i := range matched {
		m := &matched[i]
		b := bs.byRule[m.Rule.Name]
		if b == nil || !concerned(m) {
			continue
		}
		if call, retryAfter := b.Allow(); !call.OK() { // others were faster
			g.giveBack(bs, matched, i)
			return refusal(m.Rule.Name, retryAfter), false
		}
	}
	return tidegate.Decision{}, true
}

// Peek says what Admit would, and counts nothing. Of a key that is kept to a local bucket it says whether one token is left.
func (g *Guard) Peek(matched []rules.Matched) (tidegate.Decision, bool) {
	bs := g.breakers.Load()
	if len(bs.byRule) == 0 {
		return tidegate.Decision{}, true
	}
	worst, refused, tightened := bs.refuses(matched)
	if refused {
		return worst, false
	}
	if tightened {
		if d := g.charge(bs, matched, 0); !d.Allowed {
			return d, false
		}
	}
	return tidegate.Decision{}, true
}

// refuses says which rule refuses whatever is left to it, of several the one with the longest wait; and whether any is kept
// to a local bucket.
func (bs *breakers) refuses(matched []rules.Matched) (worst tidegate.Decision, refused, tightened bool) {
	refuse := func(d tidegate.Decision) {
		if !refused || d.RetryAfter > worst.RetryAfter {
			refused, worst = true, d
		}
	}
	for i := range matched {
		m := &matched[i]
		if !concerned(m) {
			continue
		}
		if b := bs.byRule[m.Rule.Name]; b != nil {
			if ok, retryAfter := b.Peek(); !ok {
				refuse(refusal(m.Rule.Name, retryAfter))
			}
		}
		switch part, retryAfter := bs.left(m.Rule); {
		case part == 0:
			refuse(refusal(m.Rule.Name, retryAfter))
		case part < 1:
			tightened = true
		}
	}
	return worst, refused, tightened
}

// Refund implements [rules.Guard]. What has become of the breakers since Admit is not known: where one has opened, a key may be given
// back a token that it was not charged.
func (g *Guard) Refund(matched []rules.Matched) {
	if bs := g.breakers.Load(); len(bs.byRule) > 0 {
		g.giveBack(bs, matched, len(matched))
	}
}

// giveBack returns the local tokens of a take, and the trials of the first so many of its rules.
func (g *Guard) giveBack(bs *breakers, matched []rules.Matched, trials int) {
	g.charge(bs, matched, -1)
	for i := range matched[:trials] {
		if b := bs.byRule[matched[i].Rule.Name]; b != nil && concerned(&matched[i]) {
			b.abandon()
		}
	}
}

// concerned says whether the rule may refuse the take.
func concerned(m *rules.Matched) bool {
	return (m.Rule.Breaker != nil || len(m.Rule.Tighten) > 0) && !m.Charge.Shadow && m.Charge.Cost > 0
}

// steps is how many there are from what a rule tightens to up to the whole: on the ramp its local bucket changes so often, and
// no more.
const steps = 20

// left returns the part of its limit that is left to a rule by the breakers that it is linked to, and if nothing is, when to ask
// again.
func (bs *breakers) left(r *rules.Rule) (part float64, retryAfter time.Duration) {
	part = 1
	for i := range r.Tighten {
		t := &r.Tighten[i]
		b := bs.byRule[t.Breaker]
		if b == nil || inShadow(b.rule) {
			continue // a rule in shadow changes no outcome, not of other rules either
		}
		f := b.Factor(t.To)
		if f < 1 {
			f = t.To + (1-t.To)*math.Floor((f-t.To)/(1-t.To)*steps+1e-9)/steps
		}
		part = min(part, f)
		if f == 0 {
			retryAfter = max(retryAfter, b.retryAfter())
		}
	}
	return part, retryAfter
}

// mostWait is how long somebody is told to wait at most for a breaker of which nobody knows when it closes.
const mostWait = time.Second

// retryAfter is when more may be left to linked rules: not before the breaker tries again.
func (b *breaker) retryAfter() time.Duration {
	if ok, retryAfter := b.Peek(); !ok {
		return retryAfter
	}
	return mostWait
}

// buffer spares a take its allocations.
type buffer struct {
	charges   []tidegate.Charge
	decisions []tidegate.Decision
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// charge charges the local buckets of the tightened rules among the matched, all or nothing, times that.
func (g *Guard) charge(bs *breakers, matched []rules.Matched, times int64) tidegate.Decision {
	b := buffers.Get().(*buffer)
	defer func() {
		clear(b.charges)
		b.charges = b.charges[:0]
		buffers.Put(b)
	}()
	for i := range matched {
		m := &matched[i]
		if a := m.Charge.Limit.Algorithm; len(m.Rule.Tighten) == 0 || !concerned(m) || a == tidegate.Concurrency || a == tidegate.None {
			continue
		}
		part, _ := bs.left(m.Rule)
		if part == 0 || part == 1 {
			continue
		}
		if g.cfg.Share != nil {
			part *= g.cfg.Share(m.Rule.Name)
		}
		limit, err := g.parts.Of(m.Charge.Limit, part)
		if err != nil {
			continue // the store says so too
		}
		b.charges = append(b.charges, tidegate.Charge{Rule: m.Rule.Name, Key: m.Charge.Key, Limit: limit, Cost: times * m.Charge.Cost})
	}
	local := g.local.Load()
	if len(b.charges) == 0 || local == nil {
		return tidegate.Decision{Allowed: true}
	}
	var err error
	b.decisions, err = local.Take(context.Background(), b.charges, b.decisions[:0])
	if err != nil {
		return tidegate.Decision{Allowed: true} // closed: see Close
	}
	d := tidegate.Combine(b.charges, b.decisions)
	d.Source = tidegate.SourceFallback
	if d.RetryAfter == tidegate.Never {
		d.RetryAfter = mostWait // it may pass once there is more left
	}
	return d
}

// abandon gives a trial back that did not begin.
func (b *breaker) abandon() { b.Record(0, downstream.Abandoned) }
