package rules

import "github.com/tidegate-go/tidegate"

var _ tidegate.Teller = (*Engine)(nil)

// anyCapacity is where the only limit of a rule is found: whatever part of it a decision is about, as in an outage, it is its.
const anyCapacity = -1

// LimitOf implements [tidegate.Teller]. Where a rule has overrides, the limit is the one of the decision's capacity; it is not
// known where there are several, or where the decision is about a part of one.
func (e *Engine) LimitOf(rule string, capacity int64) *tidegate.Limit {
	c := e.current.Load().byName[rule]
	if c == nil || capacity == tidegate.NoLimit {
		return nil
	}
	if l := c.told[anyCapacity]; l != nil {
		return l
	}
	return c.told[capacity]
}

// limitsByCapacity returns the limits of a rule, nil for those of which the capacity does not say which it is.
func limitsByCapacity(plans []plan) map[int64]*tidegate.Limit {
	limits := make(map[int64]*tidegate.Limit)
	var only *tidegate.Limit
	several := false
	add := func(l *tidegate.Limit) {
		if l.Algorithm == tidegate.Unlimited || l.Algorithm == tidegate.None {
			return
		}
		several = several || only != nil && only != l
		only = l
		capacity := l.Capacity()
		if other, ok := limits[capacity]; ok && other != l {
			l = nil
		}
		limits[capacity] = l
	}
	for i := range plans {
		add(plans[i].now.limit)
		if !plans[i].until.IsZero() {
			add(plans[i].then.limit)
		}
	}
	if only != nil && !several {
		return map[int64]*tidegate.Limit{anyCapacity: only}
	}
	return limits
}
