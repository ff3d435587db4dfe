package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

// A Rule is a named limit and what the keys of its buckets are made of: as much of a [rules.Rule] as most programs need.
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

// set returns the rules that the config asks for.
func (c *Config) set() (*rules.Set, error) {
	switch {
	case c.Set != nil && len(c.Rules) > 0:
		return nil, errors.New("server: the config has both a Set and Rules: leave one of them out")
	case c.Set != nil:
		return c.Set, nil
	case len(c.Rules) == 0:
		c.Rules = []Rule{ExampleRule()}
	}
	built := make([]rules.Rule, len(c.Rules))
	var errs []error
	for i, r := range c.Rules {
		if err := r.Limit.Validate(); err != nil { // which says more than its text, read back
			errs = append(errs, fmt.Errorf("server: rule %d, %q: %w", i+1, r.Name, err))
		}
		built[i] = rules.Rule{Name: r.Name, Key: r.Key, Limit: rules.Limit{Limit: r.Limit}, OnStoreFailure: r.OnStoreFailure}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	set, err := rules.Of(built...)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return set, nil
}
