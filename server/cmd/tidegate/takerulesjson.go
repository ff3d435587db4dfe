package main

import (
	"encoding/json"

	"github.com/tidegate-go/tidegate"
)

// rulesResult is a decision and the rules that matched: the object of a decision with one member more.
type rulesResult struct {
	decision tidegate.Decision
	Matched  []matchedResult
}

// MarshalJSON puts "matched" behind the members of the decision.
func (r rulesResult) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(r.decision)
	if err != nil {
		return nil, err
	}
	matched, err := json.Marshal(r.Matched)
	if err != nil {
		return nil, err
	}
	return append(append(append(b[:len(b)-1], `,"matched":`...), matched...), '}'), nil
}
