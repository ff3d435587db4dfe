package rules

import "errors"

// A Set is the rules of one file, found good. It never changes, and is safe for concurrent use.
type Set struct {
	rules  []*Rule
	byName map[string]*Rule
	file   string
}

// Parse reads rules, strictly: an unknown key is an error. File is the name that errors show. The error is [Errors]:
// everything that is wrong, in the order of the file.
func Parse(file string, data []byte) (*Set, error) {
	return nil, Errors{{File: file, Line: 1, Column: 1, Kind: KindSyntax, Problem: "cannot be read yet"}}
}

// Load reads the rules of a file. The error is [Errors], or that of reading the file.
func Load(path string) (*Set, error) { return nil, errors.New("rules: cannot be read yet: " + path) }

// Rules returns the rules in the order of the file. Neither the slice nor what it leads to may be changed.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule returns the rule of the name, nil if there is none.
func (s *Set) Rule(name string) *Rule { return s.byName[name] }

// File returns the name that the set was parsed under.
func (s *Set) File() string { return s.file }

// Marshal returns the rules as a file that Parse reads back to the same rules: without comments, defaults left out, limits
// and durations in one spelling, a text for two sets that mean the same.
func (s *Set) Marshal() []byte { return nil }

// A Change is what became of one rule between two sets.
type Change struct {
	Rule string
	// Old and New are the rule as [Set.Marshal] writes it; empty where it was added, or removed.
	Old, New string
}

// Diff returns what became of the rules, those of the new set first and in its order, then those that are gone. The order
// of rules does not matter, as all that match apply. Old may be nil, for none.
func Diff(old, new *Set) []Change { return nil }
