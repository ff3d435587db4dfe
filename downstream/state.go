package downstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// State is what a [Breaker] does with calls.
type State uint8

// The states.
const (
	// Closed: all calls may begin.
	Closed State = iota
	// Open: none may.
	Open
	// HalfOpen: a few may, to see how they go.
	HalfOpen
	// Ramping: a part of them may, which grows to all.
	Ramping
)

// String returns the name that logs and metrics use.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	case Ramping:
		return "ramping"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Cause is why a breaker opened.
type Cause uint8

// The causes.
const (
	// NoCause: it did not open.
	NoCause Cause = iota
	// Failures: too many calls failed.
	Failures
	// SlowCalls: too many calls were slow.
	SlowCalls
	// Refusals: too many takes were refused.
	Refusals
)

// String returns the name that logs and metrics use.
func (c Cause) String() string {
	switch c {
	case NoCause:
		return "none"
	case Failures:
		return "failures"
	case SlowCalls:
		return "slow calls"
	case Refusals:
		return "refusals"
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// A Change is a change of state.
type Change struct {
	From, To State
	// Lasted is how long the former state did.
	Lasted time.Duration
	// Cause is why it opened, and Bad of Calls what went wrong in the window: calls, or takes where the cause is refusals.
	// Of a trial they are 1 of 1.
	Cause      Cause
	Bad, Calls int64
}

// String says it in one line, such as "closed → open after 3m12s: 12 of 20, failures".
func (c Change) String() string {
	s := fmt.Sprintf("%s → %s after %v", c.From, c.To, c.Lasted)
	if c.Cause != NoCause {
		s += fmt.Sprintf(": %d of %d, %s", c.Bad, c.Calls, c.Cause)
	}
	return s
}

// Outcome is how a call of the downstream went.
type Outcome uint8

// The outcomes.
const (
	// Succeeded: it was answered. Whether that was slow, the breaker sees for itself.
	Succeeded Outcome = iota
	// Failed: it was not, or with an error that is the downstream's.
	Failed
	// Abandoned: nobody can tell, since the caller left or the call never began. It counts neither way.
	Abandoned
)

// String returns the name that the wire uses.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	case Abandoned:
		return "abandoned"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// ParseOutcome reads an outcome's name.
func ParseOutcome(name string) (Outcome, error) {
	for _, o := range []Outcome{Succeeded, Failed, Abandoned} {
		if name == o.String() {
			return o, nil
		}
	}
	return 0, fmt.Errorf("downstream: no outcome is called %q: succeeded, failed or abandoned", name)
}

// OutcomeOf is the outcome of a call that returned this error: abandoned if the caller's context was cancelled, failed for any
// other, a deadline included.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Succeeded
	case errors.Is(err, context.Canceled):
		return Abandoned
	}
	return Failed
}
