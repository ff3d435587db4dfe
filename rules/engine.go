package rules

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// Config says how an [Engine] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// At is when the rules were changed at their source; see [tidegate.Charge.Version].
	// Default: zero, rules that are part of the program.
	At time.Time
	// Counter is told what became of each rule in each take. Default: none.
	Counter Counter
	// Tracker is told of each key that is asked for, to find the hot ones. Default: none.
	Tracker Tracker
	// Guard may refuse takes before the store is asked. Default: none.
	Guard Guard
}

// Outcome is what a take came to for one rule.
type Outcome uint8

// The outcomes.
const (
	// Allowed: the rule had room. The take may still have been refused by another rule.
	Allowed Outcome = iota
	// Refused: the rule refused the take.
	Refused
	// ShadowRefused: the rule would have refused the take, were it not in shadow, for this key.
	ShadowRefused
)

// A Counter counts what became of takes, rule by rule. Peeks and refunds are not told of. It is called while a request
// waits, by many at once, and must be quick.
type Counter interface {
	Count(rule string, outcome Outcome, source tidegate.Source)
}

// A Tracker finds the keys that are asked for most. It is called like a [Counter], with what a take asked of a bucket and
// whether the rule had room, in shadow or not.
type Tracker interface {
	Observe(rule, key string, cost int64, allowed bool)
}

// A Guard is asked before the store is, so that what a breaker keeps out costs the shared limits nothing.
type Guard interface {
	// Admit charges what it keeps itself, all or nothing, and returns true; or returns the decision that refuses.
	// It must not keep the slice.
	Admit(matched []Matched) (tidegate.Decision, bool)
	// Refund gives back what Admit charged, since the store refused or failed.
	Refund(matched []Matched)
}

// An Engine decides requests by a [Set] of rules. It is a [tidegate.Decider], safe for concurrent use; create it with [New].
type Engine struct {
	store   tidegate.Store
	cfg     Config
	current atomic.Pointer[snapshot]
}

// snapshot is a set and what was worked out for it; immutable.
type snapshot struct {
	set *Set
}

var _ tidegate.Decider = (*Engine)(nil)

// New returns an engine that decides in the store, which stays the caller's to close. A nil config is the default.
func New(store tidegate.Store, set *Set, cfg *Config) (*Engine, error) {
	if store == nil || set == nil {
		return nil, errors.New("rules: New needs a store, such as memstore.New(nil), and a set, such as Load's")
	}
	e := &Engine{store: store}
	if cfg != nil {
		e.cfg = *cfg
	}
	e.current.Store(&snapshot{set: set})
	return e, nil
}

// Set returns the rules that takes are decided by now.
func (e *Engine) Set() *Set { return e.current.Load().set }

// Swap decides all takes from now on by another set, which was changed at that moment at its source, and returns what
// changed, as [Diff] does. Buckets keep what was spent: where a rule's limits are the same as before, nothing changes for
// them, and where they are not, the share in use carries over. Takes that have begun end by the former set.
func (e *Engine) Swap(set *Set, at time.Time) []Change {
	old := e.current.Swap(&snapshot{set: set})
	return Diff(old.set, set)
}

// A Matched is a rule that a request's attributes fit, and what it charges.
type Matched struct {
	Rule *Rule
	// Override is which of the rule's overrides applies; -1 if none does.
	Override int
	// Charge is what the store is asked: the key, the limit that counts now, the cost, and whether in shadow.
	// Where a request is refused for what it lacks, its limit is none and its key empty.
	Charge tidegate.Charge
	// Decision is the rule's own, once [Engine.Take] has filled it in.
	Decision tidegate.Decision
}

// Decide charges the cost to the buckets of all rules that the attributes fit, all or nothing, and answers for the whole:
// see [tidegate.Combine]. Without such a rule the decision is one without a limit, of no rule. A cost of 0 peeks.
// A rule of permits cannot be charged so: [*PermitsError].
func (e *Engine) Decide(ctx context.Context, attributes tidegate.Attributes, cost int64) (tidegate.Decision, error) {
	return tidegate.Decision{}, errors.ErrUnsupported
}

// Match appends the rules that the attributes fit to dst, in the order of the rules, and asks no store. The error is a
// [*PermitsError], or [tidegate.ErrNever] for a cost that nothing counts.
func (e *Engine) Match(attributes tidegate.Attributes, cost int64, dst []Matched) ([]Matched, error) {
	return dst, errors.ErrUnsupported
}

// MatchKey is the rule of the name, for a key whose parts are given in the rule's order: the same bucket as the attributes
// would select. Its conditions are not asked, and overrides see the parts alone. The error is an [*UnknownRuleError] or a
// [*KeyError].
func (e *Engine) MatchKey(rule string, key []string, cost int64) (Matched, error) {
	return Matched{}, errors.ErrUnsupported
}

// Take decides all that Match and MatchKey gave, for one request or for several together, in one take, and fills in the
// decision of each.
func (e *Engine) Take(ctx context.Context, matched []Matched) (tidegate.Decision, error) {
	return tidegate.Decision{}, errors.ErrUnsupported
}

// TakeKey is MatchKey and Take. A cost of 0 peeks, a negative one refunds.
func (e *Engine) TakeKey(ctx context.Context, rule string, key []string, cost int64) (tidegate.Decision, error) {
	return tidegate.Decision{}, errors.ErrUnsupported
}
