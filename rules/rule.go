package rules

import (
	"time"

	"github.com/tidegate-go/tidegate"
)

// A Rule is a named limit: what it matches, what the keys of its buckets are made of, and how it decides.
// It belongs to a [Set] and must not be changed.
type Rule struct {
	// Name names the rule in decisions, metrics and requests, and its buckets in the store.
	Name string
	// Line is where the rule begins in its file, from 1.
	Line int
	// Match are the conditions that a request must meet, all of them. None: every request meets them.
	Match Match
	// Key names the attributes that make the key, in their order. None: all requests share one bucket.
	// A request that lacks one of them is not the rule's, or is refused: see Missing.
	Key []string
	// Limit is what each bucket holds, unless an override says otherwise.
	Limit Limit
	// Overrides are other limits for some keys. The first that matches wins; the bucket stays the same.
	Overrides []Override
	// Cost is what a take of cost 1 costs here.
	Cost Cost
	// OnStoreFailure says what decides when the store fails. Default: local.
	OnStoreFailure tidegate.FailurePolicy
	// Shadow decides and counts, and never refuses. Nor does its breaker, if it has one, tighten other rules; and a rule of
	// permits has no part in takes by attributes, which hold none: who acquires one by name sees what it would say.
	Shadow bool
	// Enforce is the part of the keys that the rule is enforced for, from 0 to 1; it is in shadow for the rest. Which keys
	// those are is the same in all processes, and raising the part keeps those it had. Default: 1, all of them.
	Enforce float64
	// Missing says what becomes of a request that lacks an attribute of the key, or that of the cost.
	Missing Missing
	// Breaker guards what is behind the rule; nil for none. It is known by the rule's name.
	Breaker *Breaker
	// Tighten lowers the limit while breakers are not closed. Of several the lowest counts.
	Tighten []Tighten
}

// An Override is another limit for the keys that match.
type Override struct {
	Line int // where it begins in its file, from 1
	// Match are conditions on attributes that the key is made of, so that a bucket never has two limits.
	Match Match
	Limit Limit
}

// A Limit is a limit that may have an end.
type Limit struct {
	// Limit is what counts until Until, and for ever where that is zero. Normalized.
	tidegate.Limit
	// Until is when the limit ends, in UTC. Zero: it does not.
	Until time.Time
	// Then is what counts from Until on. Zero where there is no Until.
	Then tidegate.Limit
}

// At returns the limit that counts at the moment.
func (l *Limit) At(now time.Time) tidegate.Limit {
	if !l.Until.IsZero() && !now.Before(l.Until) {
		return l.Then
	}
	return l.Limit
}

// String writes the limit as a file of rules does: "unlimited until 2026-12-01T00:00:00Z". What comes then is the file's
// own key.
func (l Limit) String() string {
	if l.Until.IsZero() {
		return l.Limit.String()
	}
	return l.Limit.String() + " until " + l.Until.Format(time.RFC3339Nano)
}

// Cost is what a take costs a rule: so much, times the cost of the take.
type Cost struct {
	// Times is the factor; 1 unless the file says otherwise. 0 where Attribute is set.
	Times int64
	// Attribute names the attribute whose value is the factor: a whole number, such as a length. A request where it is 0
	// is not charged; one where it is no such number is refused; one that lacks it is treated as Missing says.
	// A take by rule and key brings its own cost instead.
	Attribute string
}

// Missing says what becomes of a request that lacks an attribute that the rule needs.
type Missing uint8

// What can become of it.
const (
	// MissingSkip: the request is not the rule's. The default.
	MissingSkip Missing = iota
	// MissingDeny refuses it.
	MissingDeny
)

// A Breaker says when to stop calling what is behind a rule, and how to begin again. In a file:
//
//	breaker:
//	  failure_ratio: 50%       # trips when so many of the calls failed,
//	  slow_ratio: 80%          # or took longer than slow_after,
//	  slow_after: 1s
//	  refusal_ratio: 90%       # or were refused by the rule; at least one of the three ratios is given
//	  window: 10s              # counted over so long
//	  minimum_calls: 20        # and only with so many calls in it
//	  open_time: 5s            # then it is open for so long,
//	  half_open_calls: 5       # lets so many through to try,
//	  ramp: 30s                # and comes back over so long
type Breaker struct {
	FailureRatio  float64       // above 0 and at most 1; 0: failures do not trip it
	SlowRatio     float64       // above 0 and at most 1; 0: slow calls do not trip it
	SlowAfter     time.Duration // a call that takes longer is slow; above 0 where SlowRatio is set, else 0
	RefusalRatio  float64       // above 0 and at most 1; 0: refusals do not trip it
	Window        time.Duration // from 1 s to 1 h. Default: 10 s
	MinimumCalls  int64         // from 1 to 1,000,000. Default: 20
	OpenTime      time.Duration // from 100 ms to 1 h. Default: 5 s
	HalfOpenCalls int64         // from 1 to 10,000. Default: 5
	Ramp          time.Duration // from 0 to 1 h. Default: 30 s; 0: all at once
}

// Tighten links a rule to a breaker. In a file, alone or as a list of such:
//
//	tighten: {breaker: database, to: 20%}     # while the breaker of the rule "database" is open or half-open; 0% sheds all
type Tighten struct {
	// Breaker names the rule that has the breaker; it may be the rule itself. While that rule is in shadow, nothing is tightened.
	Breaker string
	// To is the part of the limit that is left, from 0 to below 1.
	To float64
}
