package rules

import (
	"context"
	"errors"
	"sync"
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
	// Now is the clock by which limits end, for tests and replay. Default: time.Now.
	Now func() time.Time
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
	swap    sync.Mutex // so that of two swaps the later follows the earlier
	current atomic.Pointer[snapshot]
}

var _ tidegate.Decider = (*Engine)(nil)

// New returns an engine that decides in the store, which stays the caller's to close. A nil config is the default.
// The error says what is missing.
func New(store tidegate.Store, set *Set, cfg *Config) (*Engine, error) {
	switch {
	case store == nil:
		return nil, errors.New("rules: the store is nil: give New one, such as memstore.New(nil)")
	case set == nil:
		return nil, errors.New("rules: the set is nil: give New one, such as that of Load or Parse")
	}
	e := &Engine{store: store}
	if cfg != nil {
		e.cfg = *cfg
	}
	if e.cfg.Now == nil {
		e.cfg.Now = time.Now
	}
	e.current.Store(compile(set, version(e.cfg.At), nil, e.cfg.Now))
	return e, nil
}

// version is the moment in microseconds since the Unix epoch; 0 for none.
func version(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return min(max(at.UnixMicro(), 0), maxExact/2)
}

// Set returns the rules that takes are decided by now.
func (e *Engine) Set() *Set { return e.current.Load().set }

// Swap decides all takes from now on by another set, which was changed at that moment at its source, and returns what
// changed, as [Diff] does. Buckets keep what was spent: where a rule's limits are the same as before, nothing changes for
// them, and where they are not, the share in use carries over. Takes that have begun end by the former set. A nil set
// changes nothing.
func (e *Engine) Swap(set *Set, at time.Time) []Change {
	if set == nil {
		return nil
	}
	e.swap.Lock()
	defer e.swap.Unlock()
	former := e.current.Load()
	e.current.Store(compile(set, version(at), former, e.cfg.Now))
	return Diff(former.set, set)
}

// A Matched is a rule that a request's attributes fit, and what it charges.
type Matched struct {
	Rule *Rule
	// Override is which of the rule's overrides applies; -1 if none does.
	Override int
	// Lacking says that the request is refused because it lacks an attribute that the rule needs, or because its cost is
	// no number. The charge's limit is then none, and its key empty.
	Lacking bool
	// Charge is what the store is asked: the key, the limit that counts now, the cost, and whether in shadow.
	Charge tidegate.Charge
	// Decision is the rule's own, once [Engine.Take] has filled it in.
	Decision tidegate.Decision
}

// Decide charges the cost to the buckets of all rules that the attributes fit, all or nothing, and answers for the whole:
// see [tidegate.Combine]. Without such a rule the decision is one without a limit, of no rule. A cost of 0 peeks.
// A rule of permits cannot be charged so: it is a [*PermitsError] where the rule is enforced for the key, and one in shadow has
// no part in the take. Otherwise the error is that of [tidegate.Store.Take].
func (e *Engine) Decide(ctx context.Context, attributes tidegate.Attributes, cost int64) (tidegate.Decision, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	if err := ev.match(e.current.Load(), attributes, cost); err != nil {
		return tidegate.Decision{}, err
	}
	return e.take(ctx, ev)
}

// Match appends the rules that the attributes fit to dst, in the order of the rules, and asks no store. The error is a
// [*PermitsError]; rules of permits in shadow are left out, unless the cost is 0.
func (e *Engine) Match(attributes tidegate.Attributes, cost int64, dst []Matched) ([]Matched, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	if err := ev.match(e.current.Load(), attributes, cost); err != nil {
		return dst, err
	}
	return ev.appendMatched(dst), nil
}

// MatchKey is the rule of the name, for a key whose parts are given in the rule's order: the same bucket as the attributes
// would select. Its conditions are not asked, and overrides see the parts alone. The error is an [*UnknownRuleError], a
// [*KeyError] or a [*PermitsError]: the last in shadow too, since who names a rule of permits means to acquire one.
func (e *Engine) MatchKey(rule string, key []string, cost int64) (Matched, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	if err := ev.matchKey(e.current.Load(), rule, key, cost); err != nil {
		return Matched{}, err
	}
	if err := ev.checkPermits(); err != nil {
		return Matched{}, err
	}
	return Matched{Rule: ev.hits[0].rule.Rule, Override: ev.hits[0].override, Charge: ev.charges[0]}, nil
}

// Take decides all that Match and MatchKey gave, for one request or for several together, in one take, and fills in the
// decision of each. Charges of other rules than theirs may be among them.
func (e *Engine) Take(ctx context.Context, matched []Matched) (tidegate.Decision, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	for i := range matched {
		ev.charges = append(ev.charges, matched[i].Charge)
	}
	d, err := e.takeFor(ctx, ev, matched)
	for i, own := range ev.decisions {
		matched[i].Decision = own //nolint:gosec // there is one for each
	}
	return d, err
}

// TakeKey is MatchKey and Take. A cost of 0 peeks, a negative one refunds.
func (e *Engine) TakeKey(ctx context.Context, rule string, key []string, cost int64) (tidegate.Decision, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	if err := ev.matchKey(e.current.Load(), rule, key, cost); err != nil {
		return tidegate.Decision{}, err
	}
	if err := ev.checkPermits(); err != nil {
		return tidegate.Decision{}, err
	}
	return e.take(ctx, ev)
}

// take decides the evaluation's charges.
func (e *Engine) take(ctx context.Context, ev *evaluation) (tidegate.Decision, error) {
	if e.cfg.Guard != nil {
		ev.matched = ev.appendMatched(ev.matched)
	}
	return e.takeFor(ctx, ev, ev.matched)
}

// takeFor decides the evaluation's charges, which the guard sees as matched.
func (e *Engine) takeFor(ctx context.Context, ev *evaluation, matched []Matched) (tidegate.Decision, error) {
	ev.decisions = ev.decisions[:0]
	if len(ev.charges) == 0 {
		return tidegate.Combine(nil, nil), nil
	}
	guarded := e.cfg.Guard != nil && ev.spends()
	if guarded {
		if d, ok := e.cfg.Guard.Admit(matched); !ok {
			e.count(&d, Refused)
			return d, nil
		}
	}
	var err error
	ev.decisions, err = e.store.Take(ctx, ev.charges, ev.decisions)
	if err != nil {
		ev.decisions = ev.decisions[:0]
		if guarded {
			e.cfg.Guard.Refund(matched)
		}
		return tidegate.Decision{}, err
	}
	d := tidegate.Combine(ev.charges, ev.decisions)
	if guarded && !d.Allowed {
		e.cfg.Guard.Refund(matched)
	}
	for i := range ev.charges {
		e.observe(&ev.charges[i], &ev.decisions[i])
	}
	return d, nil
}

// observe tells the counter and the tracker what a take came to for one rule.
func (e *Engine) observe(c *tidegate.Charge, d *tidegate.Decision) {
	if c.Cost <= 0 {
		return
	}
	if e.cfg.Counter != nil {
		outcome := Allowed
		switch {
		case d.Allowed:
		case c.Shadow:
			outcome = ShadowRefused
		default:
			outcome = Refused
		}
		e.cfg.Counter.Count(c.Rule, outcome, d.Source)
	}
	if e.cfg.Tracker != nil && c.Limit.Algorithm != tidegate.None {
		e.cfg.Tracker.Observe(c.Rule, c.Key, c.Cost, d.Allowed)
	}
}

func (e *Engine) count(d *tidegate.Decision, outcome Outcome) {
	if e.cfg.Counter != nil {
		e.cfg.Counter.Count(d.Rule, outcome, d.Source)
	}
}
