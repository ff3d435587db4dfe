package replay

import "slices"

// A Comparison says for whom other rules would have decided otherwise: "old" are those compared with, "new" those replayed.
type Comparison struct {
	// Same is how many requests both decide alike.
	Same int64 `json:"same"`
	// NewlyRefused are requests that the old rules admit and the new ones refuse; NewlyAdmitted the other way round.
	NewlyRefused  int64 `json:"newly_refused"`
	NewlyAdmitted int64 `json:"newly_admitted"`
	// WhoRefused and WhoAdmitted are the keys of which there are most, by the rule that refuses: new or old.
	WhoRefused  []KeyCount `json:"who_newly_refused"`
	WhoAdmitted []KeyCount `json:"who_newly_admitted"`
}

// comparison collects a Comparison.
type comparison struct {
	same, refused, admitted int64
	whoRefused, whoAdmitted map[string]*refusals // by rule
}

func newComparison() *comparison {
	return &comparison{whoRefused: map[string]*refusals{}, whoAdmitted: map[string]*refusals{}}
}

// count tells a request apart; rule and key are of the rule that refuses it under the one set or the other.
func (c *comparison) count(oldAllowed, newAllowed bool, rule, key string) {
	switch {
	case oldAllowed == newAllowed:
		c.same++
	case oldAllowed:
		c.refused++
		whose(c.whoRefused, rule).refuse(key)
	default:
		c.admitted++
		whose(c.whoAdmitted, rule).refuse(key)
	}
}

func whose(of map[string]*refusals, rule string) *refusals {
	r := of[rule]
	if r == nil {
		r = &refusals{}
		of[rule] = r
	}
	return r
}

func (c *comparison) report() *Comparison {
	return &Comparison{
		Same: c.same, NewlyRefused: c.refused, NewlyAdmitted: c.admitted,
		WhoRefused: topOf(c.whoRefused), WhoAdmitted: topOf(c.whoAdmitted),
	}
}

func topOf(of map[string]*refusals) []KeyCount {
	top := []KeyCount{}
	for rule, r := range of {
		top = append(top, r.top(rule, topKeys)...)
	}
	slices.SortFunc(top, byCount)
	return top[:min(topKeys, len(top))]
}
