package rules

import (
	"fmt"
	"strings"

	"github.com/tidegate-go/tidegate"
)

// Kind says what sort of mistake an [Error] is about, for programs.
type Kind string

// The kinds of mistakes.
const (
	KindSyntax      Kind = "syntax"            // not YAML, not UTF-8, or more than one document
	KindUnknownKey  Kind = "unknown_key"       // a key that the format does not have
	KindDuplicate   Kind = "duplicate"         // a key, a rule's name or a part that is given twice
	KindMissing     Kind = "missing"           // something required is not there
	KindType        Kind = "type"              // a list where a text is due, and the like
	KindValue       Kind = "value"             // a value that is not one of those permitted
	KindLimit       Kind = "limit"             // a limit that is not valid, or cannot be counted exactly
	KindUnreachable Kind = "unreachable"       // an override that can never apply
	KindSharedKey   Kind = "shared_key"        // requests of two limits would share a bucket
	KindReference   Kind = "unknown_reference" // the name of a rule or breaker that does not exist
)

// An Error is one mistake in a file of rules.
type Error struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1, in characters
	Kind   Kind   `json:"kind"`
	// Rule names the rule that the mistake is in; empty outside of rules, and where the name is what is wrong.
	Rule    string `json:"rule,omitempty"`
	Problem string `json:"problem"` // what is wrong
	Hint    string `json:"hint,omitempty"`
	// Err is the cause where there is one, such as a [*tidegate.LimitError].
	Err error `json:"-"`
}

// Error returns one line: "file:line:column: what is wrong (hint)".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors are all mistakes of a file, in the order of the file. [Parse] returns nothing else.
type Errors []*Error

// Error returns a line for each mistake.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes one by one, for [errors.Is] and [errors.As].
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// An UnknownRuleError says that no rule has the name that a take asked for.
type UnknownRuleError struct{ Rule string }

// Error names the rule.
func (e *UnknownRuleError) Error() string { return fmt.Sprintf("rules: there is no rule %q", e.Rule) }

// A KeyError says that the key of a take by rule and key has not as many parts as the rule's.
type KeyError struct {
	Rule string
	Want []string // the attributes that make the rule's key, in their order
	Got  int      // how many parts were given
}

// Error names the parts.
func (e *KeyError) Error() string {
	if len(e.Want) == 0 {
		return fmt.Sprintf("rules: rule %q has no key part, and %d were given", e.Rule, e.Got)
	}
	return fmt.Sprintf("rules: rule %q has the key parts %s, in this order, and %d were given", e.Rule, strings.Join(e.Want, ", "), e.Got)
}

// A PermitsError says that a rule of permits was charged like one of a rate, or the other way round. It is a
// [tidegate.ErrUnsupported].
type PermitsError struct {
	Rule    string
	Permits bool // whether the rule is one of permits
}

// Error says what to do instead.
func (e *PermitsError) Error() string {
	if e.Permits {
		return fmt.Sprintf("rules: rule %q is one of permits, which are held until they are released: acquire one", e.Rule)
	}
	return fmt.Sprintf("rules: rule %q is not one of permits: take from it", e.Rule)
}

// Is reports that a PermitsError is a [tidegate.ErrUnsupported].
func (e *PermitsError) Is(target error) bool { return target == tidegate.ErrUnsupported }
