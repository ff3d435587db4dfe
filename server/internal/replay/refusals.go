package replay

import (
	"cmp"
	"slices"
)

// refusals counts those of each key that was refused at least once. When there are too many, the half that was refused least is
// forgotten: the counts of what comes back are then too low.
type refusals struct {
	keys      map[string]*keyRefusals
	forgotten bool
	streak    int64 // the longest of any key
}

type keyRefusals struct {
	refused int64
	streak  int64 // in a row, up to now
}

const maxRefused = 1 << 18

func (r *refusals) refuse(key string) {
	k := r.keys[key]
	if k == nil {
		if r.keys == nil {
			r.keys = map[string]*keyRefusals{}
		}
		if len(r.keys) >= maxRefused {
			r.forget()
		}
		k = &keyRefusals{}
		r.keys[key] = k
	}
	k.refused++
	k.streak++
	r.streak = max(r.streak, k.streak)
}

func (r *refusals) admit(key string) {
	if k := r.keys[key]; k != nil {
		k.streak = 0
	}
}

func (r *refusals) forget() {
	r.forgotten = true
	all := r.sorted("")
	for _, k := range all[len(all)/2:] {
		delete(r.keys, k.Key)
	}
}

// KeyCount is a key and how often it was refused.
type KeyCount struct {
	Rule    string `json:"rule"`
	Key     string `json:"key"`
	Refused int64  `json:"refused"`
}

// top returns the n keys that were refused most.
func (r *refusals) top(rule string, n int) []KeyCount {
	all := r.sorted(rule)
	return all[:min(n, len(all))]
}

// sorted returns all of them, the most refused first.
func (r *refusals) sorted(rule string) []KeyCount {
	all := make([]KeyCount, 0, len(r.keys))
	for key, k := range r.keys {
		all = append(all, KeyCount{rule, key, k.refused})
	}
	slices.SortFunc(all, byCount)
	return all
}

func byCount(a, b KeyCount) int {
	return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
}
