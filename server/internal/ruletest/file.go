package ruletest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate/rules"
	"github.com/tidegate-go/tidegate/sim"
)

// File is a file of tests.
type File struct {
	// Rules is the file of rules, relative to this one.
	Rules string `yaml:"rules"`
	// Start is when each test begins. Default: 2026-01-01T00:00:00Z.
	Start time.Time `yaml:"start"`
	// Tests are the tests.
	Tests []Test `yaml:"tests"`

	name string
	set  *rules.Set
}

// Test is a sequence of requests.
type Test struct {
	Name  string `yaml:"name"`
	Steps []Step `yaml:"steps"`
}

// Step is a request, or several that are alike, and what is expected of it.
type Step struct {
	// At is when it comes, after the start; never before the step before it.
	At time.Duration `yaml:"at"`
	// Attributes are what is known of it.
	Attributes map[string]string `yaml:"attributes"`
	// Cost is what it charges; 0 peeks. Default: 1.
	Cost *int64 `yaml:"cost"`
	// Times is how often it comes at that moment. Default: 1.
	Times int `yaml:"times"`
	// Expect is what is expected: of the last one where it comes several times, but for the numbers.
	Expect Expect `yaml:"expect"`
}

// Expect is what is expected of a step; what is left out may be anything.
type Expect struct {
	Allowed *bool `yaml:"allowed"`
	// Admitted is how many of the requests have to pass.
	Admitted *int `yaml:"admitted"`
	// Rule is the one that decides; "" for none.
	Rule      *string `yaml:"rule"`
	Limit     *int64  `yaml:"limit"`
	Remaining *int64  `yaml:"remaining"`
	// RetryAfter, ResetAfter and Delay are exact.
	RetryAfter *time.Duration `yaml:"retry_after"`
	ResetAfter *time.Duration `yaml:"reset_after"`
	Delay      *time.Duration `yaml:"delay"`
	// Matched are the rules that match the request, in the order of the file.
	Matched *[]string `yaml:"matched"`
}

// maxTimes bounds a step.
const maxTimes = 1_000_000

var defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Load reads a file of tests and the rules that it names. The error says what is wrong, with the line where there is one.
func Load(name string) (*File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name}
	if err := yaml.Load(data, f, yaml.WithKnownFields()); err != nil {
		return nil, position(name, err)
	}
	if f.Rules == "" {
		return nil, fmt.Errorf("%s: rules is missing: name the file of rules that is tested", name)
	}
	if f.Start.IsZero() {
		f.Start = defaultStart
	}
	var errs []error
	if len(f.Tests) == 0 {
		errs = append(errs, fmt.Errorf("%s: there are no tests in it", name))
	}
	for i := range f.Tests {
		errs = append(errs, f.Tests[i].check(name, i))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	path := f.Rules
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(name), path)
	}
	set, err := rules.Load(path)
	if err != nil {
		return nil, err
	}
	f.set = set.Filter(func(r *rules.Rule) bool { return !sim.IsPermits(r) }) // those are held, not taken
	return f, nil
}

// position writes the errors of the YAML library as we write them: file:line:col: what.
func position(name string, err error) error {
	var all []*yaml.LoadError
	if several, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		all = several.Errors
	} else if one, ok := errors.AsType[*yaml.LoadError](err); ok {
		all = append(all, one)
	}
	errs := make([]error, 0, len(all))
	for _, e := range all {
		errs = append(errs, fmt.Errorf("%s:%d:%d: %s", name, max(e.Mark.Line, 1), max(e.Mark.Column, 1), e.Message))
	}
	if len(errs) == 0 {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(errs...)
}

func (t *Test) check(file string, n int) error {
	if t.Name == "" {
		return fmt.Errorf("%s: test %d has no name", file, n+1)
	}
	if len(t.Steps) == 0 {
		return fmt.Errorf("%s: test %q has no steps", file, t.Name)
	}
	var errs []error
	last := time.Duration(0)
	for i := range t.Steps {
		s := &t.Steps[i]
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s: test %q, step %d: %s", file, t.Name, i+1, fmt.Sprintf(format, args...)))
		}
		if s.At < last {
			fault("it is at %v, before the step before it, at %v: sort them", s.At, last)
		}
		last = max(last, s.At)
		if s.Times < 0 || s.Times > maxTimes {
			fault("times is %d: 1 to %d", s.Times, maxTimes)
		}
		if s.Times == 0 {
			s.Times = 1
		}
		if s.Expect == (Expect{}) {
			fault("it expects nothing: write for example expect: {allowed: true}")
		}
	}
	return errors.Join(errs...)
}
