package rules

import "errors"

// Of returns the set of rules that were built in code, checked as [Parse] checks those of a file. The rules are copied.
// Only what a file can say counts: of a condition its attribute and patterns, of a limit what [tidegate.Limit.String]
// writes. A Times of 0 and an Enforce of 0 are the defaults; Shadow is how to enforce a rule for nobody.
// The error is [Errors], whose positions are those of the text that [Set.Marshal] would write.
func Of(rules ...Rule) (*Set, error) {
	if len(rules) == 0 {
		return nil, Errors{{
			File: ofFile, Line: 1, Column: 1, Kind: KindMissing,
			Problem: "there are no rules, so that everything would pass", Hint: "give at least one",
		}}
	}
	text := []byte(head)
	for i := range rules {
		r := rules[i]
		if r.Enforce == 0 {
			r.Enforce = 1
		}
		text = append(text, r.String()...)
	}
	s, err := Parse(ofFile, text)
	if es, ok := errors.AsType[Errors](err); ok && len(es) == 1 && es[0].Kind == KindSyntax {
		es[0].Hint = "a name, attribute or value is not UTF-8"
	}
	return s, err
}

// ofFile is what rules that were built in code are called where a file's name is shown.
const ofFile = "built-in"
