package rules

// A Set is the rules of one file, found good. It never changes, and is safe for concurrent use.
type Set struct {
	file   string
	rules  []*Rule
	byName map[string]*Rule
}

// Rules returns the rules in the order of the file. Neither the slice nor what it leads to may be changed.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule returns the rule of the name, nil if there is none.
func (s *Set) Rule(name string) *Rule { return s.byName[name] }

// File returns the name that the set was parsed under.
func (s *Set) File() string { return s.file }

// Filter returns the set of those rules alone that are kept.
func (s *Set) Filter(keep func(*Rule) bool) *Set {
	f := &Set{file: s.file, byName: make(map[string]*Rule, len(s.rules))}
	for _, r := range s.rules {
		if keep(r) {
			f.rules = append(f.rules, r)
			f.byName[r.Name] = r
		}
	}
	return f
}

// Marshal returns the rules as a file that [Parse] reads back to the same rules: without comments, defaults left out,
// limits and durations in one spelling. Two sets that mean the same have one text.
func (s *Set) Marshal() []byte {
	b := []byte(head)
	for _, r := range s.rules {
		b = append(b, r.String()...)
	}
	return b
}

// head is what a file begins with.
const head = "version: 1\nrules:\n"

// A Change is what became of one rule between two sets.
type Change struct {
	Rule string
	// Before and After are the rule as [Set.Marshal] writes it; empty where it was added, or removed.
	Before, After string
}

// Diff returns what became of the rules, those of the later set first and in its order, then those that are gone. The
// order of rules does not matter, as all that match apply. Before may be nil, for none.
func Diff(before, after *Set) []Change {
	var changes []Change
	for _, r := range after.rules {
		c := Change{Rule: r.Name, After: r.String()}
		if before != nil {
			if was := before.byName[r.Name]; was != nil {
				c.Before = was.String()
			}
		}
		if c.Before != c.After {
			changes = append(changes, c)
		}
	}
	if before == nil {
		return changes
	}
	for _, r := range before.rules {
		if after.byName[r.Name] == nil {
			changes = append(changes, Change{Rule: r.Name, Before: r.String()})
		}
	}
	return changes
}
