package server

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/key"
)

// A Rule is a named limit and what the keys of its buckets are made of.
type Rule struct {
	// Name names the rule in requests, decisions and metrics, and its buckets in the store.
	Name string
	// Limit is what each bucket holds.
	Limit tidegate.Limit
	// Key names the attributes that make the key, in their order. None: all takes of the rule share one bucket.
	Key []string
	// OnStoreFailure says what decides while the store is away, if it is one of package resilience. Default: local.
	OnStoreFailure tidegate.FailurePolicy
}

// ExampleRule returns the rule that is built in where no others are given: "example", 10/s burst 20, a bucket per key.
func ExampleRule() Rule {
	return Rule{
		Name:  "example",
		Limit: tidegate.Limit{Rate: 10, Per: time.Second, Burst: 20},
		Key:   []string{"key"},
	}
}

// A ruleSet is the rules that requests are decided by.
type ruleSet interface {
	// named returns the rule of the name, or nil.
	named(name string) *rule
	// matching returns the rules that the attributes fit and the key of each, in the order of the rules.
	matching(attributes tidegate.Attributes) []match
}

// match is a rule that a request's attributes fit, and the bucket that they select.
type match struct {
	rule *rule
	key  string
}

// rule is a Rule that was found good. Its limiter does what concerns it alone.
type rule struct {
	Rule
	limiter *tidegate.Limiter
}

// charge is the rule's part in a take of several.
func (r *rule) charge(key string, cost int64) tidegate.Charge {
	return tidegate.Charge{Rule: r.Name, Key: key, Limit: &r.Limit, Cost: cost, OnFailure: r.OnStoreFailure}
}

// isPermits reports whether the rule counts what is in flight, which is acquired and released instead of taken.
func (r *rule) isPermits() bool { return r.Limit.Algorithm == tidegate.Concurrency }

// table is a ruleSet that never changes.
type table struct {
	ordered []*rule
	byName  map[string]*rule
}

func newTable(store tidegate.Store, rules []Rule) (*table, error) {
	t := &table{byName: make(map[string]*rule, len(rules))}
	var errs []error
	for i, r := range rules {
		built, err := newRule(store, r)
		if err == nil && t.byName[r.Name] != nil {
			err = errors.New("another rule has this name: give each its own")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("server: rule %d, %q: %w", i+1, r.Name, err))
			continue
		}
		t.ordered = append(t.ordered, built)
		t.byName[r.Name] = built
	}
	return t, errors.Join(errs...)
}

func newRule(store tidegate.Store, r Rule) (*rule, error) {
	if r.Name == "" || !utf8.ValidString(r.Name) {
		return nil, errors.New("the name must be text, and not empty")
	}
	for i, part := range r.Key {
		if part == "" || slices.Contains(r.Key[:i], part) {
			return nil, fmt.Errorf("the key part %q: each must name an attribute, and once", part)
		}
	}
	limiter, err := tidegate.New(store, r.Limit, &tidegate.Config{Rule: r.Name, OnStoreFailure: r.OnStoreFailure})
	if err != nil {
		return nil, err
	}
	r.Limit = limiter.Limit()
	r.Key = slices.Clone(r.Key)
	return &rule{Rule: r, limiter: limiter}, nil
}

func (t *table) named(name string) *rule { return t.byName[name] }

func (t *table) matching(attributes tidegate.Attributes) []match {
	var ms []match
	for _, r := range t.ordered {
		if parts, ok := keyFrom(attributes, r.Key); ok {
			ms = append(ms, match{r, key.Join(parts)})
		}
	}
	return ms
}

// keyFrom returns the values of the attributes that names name, and whether all are there: a request without one of them
// is not the rule's, and never gets into a bucket that all such requests would share.
func keyFrom(attributes tidegate.Attributes, names []string) ([]string, bool) {
	parts := make([]string, len(names))
	for i, name := range names {
		value, ok := attributes.Attribute(name)
		if !ok {
			return nil, false
		}
		parts[i] = value
	}
	return parts, true
}
