package rules

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/key"
)

// evaluation is what a take works with, kept from one take to the next so that none allocates.
type evaluation struct {
	candidates []int32
	parts      []string
	hash       []byte
	hits       []hit
	charges    []tidegate.Charge // one for each hit
	decisions  []tidegate.Decision
	matched    []Matched // for a guard alone
	holds      bool      // the take's permits are released: see [Engine.HoldFor]
}

// hit is a rule that a request is decided by.
type hit struct {
	rule     *compiled
	override int
	lacking  bool
}

var evaluations = sync.Pool{New: func() any { return new(evaluation) }}

// free gives the evaluation back, without what the request brought.
func (ev *evaluation) free() {
	clear(ev.parts)
	clear(ev.hits)
	clear(ev.charges)
	clear(ev.matched)
	ev.parts, ev.hits, ev.charges, ev.matched = ev.parts[:0], ev.hits[:0], ev.charges[:0], ev.matched[:0]
	ev.holds = false
	const most = 1 << 10 // one request that matched a crowd of rules is not remembered for ever
	if cap(ev.hits) <= most && cap(ev.candidates) <= 64*most {
		evaluations.Put(ev)
	}
}

// match appends a hit and a charge for each rule that the attributes fit, in the order of the rules.
func (ev *evaluation) match(s *snapshot, attributes tidegate.Attributes, cost int64) error {
	now := s.now()
	ev.candidates = append(ev.candidates[:0], s.index.always...)
	for i := range s.index.attributes {
		a := &s.index.attributes[i]
		if value, ok := attributes.Attribute(a.name); ok {
			ev.candidates = a.candidates(value, ev.candidates)
		}
	}
	if len(ev.candidates) > len(s.index.always) {
		slices.Sort(ev.candidates)
	}
	last := int32(-1)
	for _, n := range ev.candidates {
		if n == last { // two patterns of one condition can lead to one rule
			continue
		}
		last = n
		c := &s.rules[n]
		if !c.Match.holds(attributes) {
			continue
		}
		if err := ev.charge(c, attributes, cost, now); err != nil {
			return err
		}
	}
	return nil
}

// now is the time, where it matters.
func (s *snapshot) now() time.Time {
	if !s.ends {
		return time.Time{}
	}
	return s.clock()
}

// holds reports whether the attributes meet all conditions.
func (m Match) holds(attributes tidegate.Attributes) bool {
	for i := range m {
		value, present := attributes.Attribute(m[i].Attribute)
		if !m[i].holds(value, present) {
			return false
		}
	}
	return true
}

// charge appends the rule's part in the take of a request that meets its conditions, unless the request lacks what the
// rule needs and is not its.
func (ev *evaluation) charge(c *compiled, attributes tidegate.Attributes, cost int64, now time.Time) error {
	ev.parts = ev.parts[:0]
	for _, name := range c.Key {
		value, ok := attributes.Attribute(name)
		if !ok {
			return ev.lacking(c, cost)
		}
		ev.parts = append(ev.parts, value)
	}
	times := c.Cost.Times
	if c.Cost.Attribute != "" {
		value, ok := attributes.Attribute(c.Cost.Attribute)
		if !ok {
			return ev.lacking(c, cost)
		}
		if times, ok = parseCost(value); !ok {
			ev.refuse(c, cost)
			return nil
		}
		if times == 0 && cost != 0 {
			return nil
		}
	}
	ev.add(c, cost, times, now)
	if err := ev.checkPermits(); err != nil {
		if ev.charges[len(ev.charges)-1].Shadow {
			// Nobody would release what a take held, and a rule in shadow changes no outcome: it has no part in the take.
			ev.drop()
			return nil
		}
		return err
	}
	return nil
}

// drop takes back what was added last.
func (ev *evaluation) drop() {
	n := len(ev.hits) - 1
	ev.hits[n], ev.charges[n] = hit{}, tidegate.Charge{} // as free leaves them
	ev.hits, ev.charges = ev.hits[:n], ev.charges[:n]
}

// lacking is charge for a request without an attribute that the rule needs.
func (ev *evaluation) lacking(c *compiled, cost int64) error {
	if c.Missing == MissingDeny {
		ev.refuse(c, cost)
	}
	return nil
}

// refuse appends a charge that no store allows. What is given back is not refused.
func (ev *evaluation) refuse(c *compiled, cost int64) {
	if cost < 0 {
		return
	}
	var enforced bool
	enforced, ev.hash = c.isEnforced("", ev.hash)
	ev.hits = append(ev.hits, hit{c, -1, true})
	ev.charges = append(ev.charges, tidegate.Charge{
		Rule: c.Name, Limit: c.never.limit, Version: c.never.version, Cost: cost, Shadow: !enforced,
	})
}

// add appends the rule's charge for the key of the parts.
func (ev *evaluation) add(c *compiled, cost, times int64, now time.Time) {
	n := c.override(ev.parts)
	st := c.plans[1+n].at(now)
	k := key.Join(ev.parts)
	var enforced bool
	enforced, ev.hash = c.isEnforced(k, ev.hash)
	ev.hits = append(ev.hits, hit{c, n, false})
	ev.charges = append(ev.charges, tidegate.Charge{
		Rule:      c.Name,
		Key:       k,
		Limit:     st.limit,
		Version:   st.version,
		Cost:      multiply(cost, times),
		Shadow:    !enforced,
		OnFailure: c.OnStoreFailure,
	})
}

// matchKey makes the evaluation one of the rule of the name, for the key of the parts.
func (ev *evaluation) matchKey(s *snapshot, rule string, parts []string, cost int64) error {
	c := s.byName[rule]
	switch {
	case c == nil:
		return &UnknownRuleError{Rule: rule}
	case len(parts) != len(c.Key):
		return &KeyError{Rule: rule, Want: c.Key, Got: len(parts)}
	}
	ev.parts = append(ev.parts[:0], parts...)
	times := c.Cost.Times
	if c.Cost.Attribute != "" {
		times = 1 // the caller knows what the attribute would say
	}
	ev.add(c, cost, times, s.now())
	return nil
}

// spends reports whether any charge does more than peek or give back.
func (ev *evaluation) spends() bool {
	for i := range ev.charges {
		if ev.charges[i].Cost > 0 {
			return true
		}
	}
	return false
}

// appendMatched appends what the evaluation found.
func (ev *evaluation) appendMatched(dst []Matched) []Matched {
	for i := range ev.hits {
		h := &ev.hits[i]
		dst = append(dst, Matched{Rule: h.rule.Rule, Override: h.override, Lacking: h.lacking, Charge: ev.charges[i]})
	}
	return dst
}

// checkPermits refuses to charge a rule of permits, which nobody would release.
func (ev *evaluation) checkPermits() error {
	c := &ev.charges[len(ev.charges)-1]
	if c.Limit.Algorithm == tidegate.Concurrency && c.Cost != 0 && !ev.holds {
		return &PermitsError{Rule: c.Rule, Permits: true}
	}
	return nil
}

// parseCost reads a whole number below 2^53.
func parseCost(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > maxExact {
			return 0, false
		}
	}
	return n, true
}

// multiply returns the product, or what is nearest to it of what a store counts.
func multiply(cost, times int64) int64 {
	if times == 1 {
		return cost
	}
	n := uint64(cost)
	if cost < 0 {
		n = -n
	}
	hi, lo := bits.Mul64(n, uint64(times))
	product := int64(maxExact)
	if hi == 0 && lo < maxExact {
		product = int64(lo)
	}
	if cost < 0 {
		return -product
	}
	return product
}
