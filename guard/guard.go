package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/downstream"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/rules"
)

// Config says how a [Guard] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Share returns the part of a rule's limit that is this replica's, above 0 and at most 1, such as a [resilience.Store]'s.
	// Default: 1, there is no other.
	Share func(rule string) float64
	// Changed is told of each change of a breaker's state, with the name of its rule. It must be quick and not call the Guard.
	// Default: nobody is.
	Changed func(rule string, c downstream.Change)
	// Tracker is told what the Guard is, as a [rules.Tracker]. Default: nobody is.
	Tracker rules.Tracker
	// MaxKeys bounds the local buckets of tightened rules; see [memstore.Config]. Default: 100,000.
	MaxKeys int
}

// A Guard keeps takes from a downstream in trouble. It is a [rules.Guard], and a [rules.Tracker], by which it sees how many
// takes are refused. It is safe for concurrent use; create it with [New] and close it when done.
type Guard struct {
	cfg   Config
	local atomic.Pointer[memstore.Store] // from when a rule is first linked to a breaker
	parts resilience.Parts

	breakers atomic.Pointer[breakers]
	using    sync.Mutex // whoever replaces breakers
	closed   bool
}

// breakers are those of a set, by the names of their rules; immutable.
type breakers struct {
	byRule   map[string]*breaker
	refusals bool // one of them trips on refusals
}

type breaker struct {
	*downstream.Breaker

	rule *rules.Rule
}

// like reports whether the breaker is what the rule asks for. One that counted while its rule was in shadow begins anew when that
// is enforced: what it counted may have been refused in name alone.
func (b *breaker) like(r *rules.Rule) bool {
	return *b.rule.Breaker == *r.Breaker && inShadow(b.rule) == inShadow(r)
}

// inShadow reports whether a rule is enforced for no key.
func inShadow(r *rules.Rule) bool { return r.Shadow || r.Enforce == 0 }

var (
	_ rules.Guard   = (*Guard)(nil)
	_ rules.Tracker = (*Guard)(nil)
)

const defaultMaxKeys = 100_000

// New returns a guard that has no breakers until Use gives it a set. A nil config is the default.
func New(cfg *Config) *Guard {
	g := &Guard{}
	if cfg != nil {
		g.cfg = *cfg
	}
	if g.cfg.MaxKeys <= 0 {
		g.cfg.MaxKeys = defaultMaxKeys
	}
	g.breakers.Store(&breakers{})
	return g
}

// Close frees what the guard holds. Takes that it is asked for then are refused nothing.
func (g *Guard) Close() error {
	g.using.Lock()
	defer g.using.Unlock()
	g.closed = true
	g.breakers.Store(&breakers{})
	if local := g.local.Load(); local != nil {
		return local.Close()
	}
	return nil
}

// Use makes the breakers those of a set, which the engine swaps to next. A breaker whose rule and settings are the same as before
// stays as it is; others begin closed, and so does one whose rule goes into shadow or comes out. On an error, which no parsed set gives, all stay as they were.
func (g *Guard) Use(set *rules.Set) error {
	g.using.Lock()
	defer g.using.Unlock()
	if g.closed {
		return nil
	}
	old := g.breakers.Load()
	next := &breakers{byRule: make(map[string]*breaker)}
	var errs []error
	for _, r := range set.Rules() {
		if len(r.Tighten) > 0 && g.local.Load() == nil {
			g.local.Store(memstore.New(&memstore.Config{MaxKeys: g.cfg.MaxKeys}))
		}
		if r.Breaker == nil {
			continue
		}
		next.refusals = next.refusals || r.Breaker.RefusalRatio > 0
		if b := old.byRule[r.Name]; b != nil && b.like(r) {
			next.byRule[r.Name] = &breaker{b.Breaker, r} // which may be enforced for other keys than before
			continue
		}
		b, err := g.breaker(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("guard: the rule %q: %w", r.Name, err))
			continue
		}
		next.byRule[r.Name] = b
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	g.breakers.Store(next)
	return nil
}

// breaker makes the breaker of a rule.
func (g *Guard) breaker(r *rules.Rule) (*breaker, error) {
	c := downstream.Config{
		FailureRatio:  r.Breaker.FailureRatio,
		SlowRatio:     r.Breaker.SlowRatio,
		SlowAfter:     r.Breaker.SlowAfter,
		RefusalRatio:  r.Breaker.RefusalRatio,
		Window:        r.Breaker.Window,
		MinimumCalls:  int(r.Breaker.MinimumCalls),
		OpenTime:      r.Breaker.OpenTime,
		HalfOpenCalls: int(r.Breaker.HalfOpenCalls),
		Ramp:          r.Breaker.Ramp,
	}
	if c.Ramp == 0 {
		c.Ramp = -1 // a rule's 0 is no ramp
	}
	if g.cfg.Changed != nil {
		c.Changed = func(ch downstream.Change) { g.cfg.Changed(r.Name, ch) }
	}
	b, err := downstream.New(&c)
	if err != nil {
		return nil, err
	}
	return &breaker{b, r}, nil
}

// An UnknownBreakerError says that a rule has no breaker, or that there is no such rule.
type UnknownBreakerError struct {
	Rule  string
	Known []string // the rules that have one
}

// Error names the rule, and those that have a breaker.
func (e *UnknownBreakerError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("guard: the rule %q has no breaker, nor has any other", e.Rule)
	}
	return fmt.Sprintf("guard: the rule %q has no breaker: those that have are %s", e.Rule, strings.Join(e.Known, ", "))
}

// Record says how a call of what is behind the rule went, that took so long and ended just now; see
// [downstream.Breaker.Record]. The error is an [*UnknownBreakerError].
func (g *Guard) Record(rule string, took time.Duration, o downstream.Outcome) error {
	b := g.breakers.Load().byRule[rule]
	if b == nil {
		e := &UnknownBreakerError{Rule: rule}
		for _, s := range g.Status() {
			e.Known = append(e.Known, s.Rule)
		}
		return e
	}
	b.Record(took, o)
	return nil
}

// Observe implements [rules.Tracker]: it counts refusals. Those of keys that a rule is not enforced for do not count beside those
// that it is: nobody was refused.
func (g *Guard) Observe(rule, key string, cost int64, allowed bool) {
	if bs := g.breakers.Load(); bs.refusals {
		if b := bs.byRule[rule]; b != nil && b.rule.Breaker.RefusalRatio > 0 && (inShadow(b.rule) || b.rule.EnforcedFor(key)) {
			b.Take(allowed)
		}
	}
	if g.cfg.Tracker != nil {
		g.cfg.Tracker.Observe(rule, key, cost, allowed)
	}
}

// Status is how the breaker of a rule is.
type Status struct {
	Rule string
	downstream.Status
}

// Status returns how all breakers are, by the names of their rules.
func (g *Guard) Status() []Status {
	var all []Status
	for rule, b := range g.breakers.Load().byRule {
		all = append(all, Status{rule, b.Status()})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Rule, b.Rule) })
	return all
}

// refusal is the decision of a rule that lets nothing through for a while.
func refusal(rule string, retryAfter time.Duration) tidegate.Decision {
	return tidegate.Decision{Source: tidegate.SourceFallback, Rule: rule, RetryAfter: retryAfter}
}
