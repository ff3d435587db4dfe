package ruletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/sim"
)

// Result is what came of one test.
type Result struct {
	Name string `json:"name"`
	// Failures are what was expected and what came instead; none if the test passed.
	Failures []Failure `json:"failures"`
}

// Failure is an expectation that was not met.
type Failure struct {
	Step     int    `json:"step"` // from 1
	At       string `json:"at"`
	What     string `json:"what"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// String returns the failure in a line.
func (f *Failure) String() string {
	return fmt.Sprintf("step %d at %s: %s: expected %s, got %s", f.Step, f.At, f.What, f.Expected, f.Got)
}

// Run runs the tests. The error is of those that could not be run, which have no results.
func (f *File) Run() ([]Result, error) {
	results := make([]Result, 0, len(f.Tests))
	var errs []error
	for i := range f.Tests {
		r, err := f.run(&f.Tests[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: test %q: %w", f.name, f.Tests[i].Name, err))
			continue
		}
		results = append(results, r)
	}
	return results, errors.Join(errs...)
}

func (f *File) run(t *Test) (Result, error) {
	r := Result{Name: t.Name, Failures: []Failure{}}
	s, err := sim.New(f.set, nil)
	if err != nil {
		return r, err
	}
	defer s.Close()
	for i := range t.Steps {
		failures, err := t.Steps[i].run(s, f.Start, i+1)
		if err != nil {
			return r, fmt.Errorf("step %d: %w", i+1, err)
		}
		r.Failures = append(r.Failures, failures...)
	}
	return r, nil
}

func (st *Step) run(s *sim.Sim, start time.Time, n int) ([]Failure, error) {
	cost := int64(1)
	if st.Cost != nil {
		cost = *st.Cost
	}
	var d tidegate.Decision
	var matched []rules.Matched
	admitted := 0
	for range st.Times {
		var err error
		if d, matched, err = s.Explain(start.Add(st.At), tidegate.AttributeMap(st.Attributes), cost); err != nil {
			return nil, err
		}
		if d.Allowed {
			admitted++
		}
	}
	var failures []Failure
	want := &st.Expect
	expect(&failures, "allowed", want.Allowed, d.Allowed)
	expect(&failures, "admitted", want.Admitted, admitted)
	expect(&failures, "rule", want.Rule, d.Rule)
	expect(&failures, "limit", want.Limit, d.Limit)
	expect(&failures, "remaining", want.Remaining, d.Remaining)
	expect(&failures, "retry_after", want.RetryAfter, d.RetryAfter)
	expect(&failures, "reset_after", want.ResetAfter, d.ResetAfter)
	expect(&failures, "delay", want.Delay, d.Delay)
	if want.Matched != nil {
		names := make([]string, len(matched))
		for i := range matched {
			names[i] = matched[i].Rule.Name
		}
		if !slices.Equal(*want.Matched, names) {
			failures = append(failures, Failure{What: "matched", Expected: list(*want.Matched), Got: list(names)})
		}
	}
	for i := range failures {
		failures[i].Step, failures[i].At = n, st.At.String()
	}
	return failures, nil
}

func list(names []string) string { return "[" + strings.Join(names, ", ") + "]" }

func expect[T comparable](failures *[]Failure, what string, want *T, got T) {
	if want != nil && *want != got {
		*failures = append(*failures, Failure{What: what, Expected: shown(*want), Got: shown(got)})
	}
}

// shown writes what has no number as the word that says so.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case time.Duration:
		if v == tidegate.Never {
			return "never"
		}
	case int64:
		if v == tidegate.NoLimit {
			return "no limit"
		}
	}
	return fmt.Sprint(v)
}
