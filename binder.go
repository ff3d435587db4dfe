package tidegate

import (
	"context"
	"time"
)

// A Binder is a [Store] that knows a shorter way than [Store.Take] for takes of one charge. A [Limiter] takes it where
// there is one, and does without where there is none: the decisions are the same, and both ways lead to the same buckets.
//
// It is for stores that need nothing but themselves to decide: what comes this way has no [Charge.OnFailure].
type Binder interface {
	// Bind returns the way to the buckets of a rule. Store is the one that the caller was given. If that is something
	// around the Binder, such as a struct that embeds it, it has a Take of its own, which must not be passed by: Bind then
	// returns nil.
	Bind(store Store, rule string) BoundRule
}

// A BoundRule takes from the buckets of one rule. It is safe for concurrent use.
type BoundRule interface {
	// Take decides as [Store.Take] does for a charge of this key, limit, version and cost that has no other field set.
	Take(ctx context.Context, key string, limit *Limit, version, cost int64) (Outcome, Waits, error)
	// Key returns the way to one bucket, which need not be there yet, and may be gone and come back.
	Key(key string) BoundKey
}

// A BoundKey takes from one bucket. It is safe for concurrent use.
type BoundKey interface {
	// Take decides as [Store.Take] does for a charge of this limit, version and cost that has no other field set.
	Take(ctx context.Context, limit *Limit, version, cost int64) (Outcome, Waits, error)
}

// Outcome and [Waits] are the halves of a [Decision], of which each is small enough to travel in registers: to copy a whole
// one from function to function takes longer than to decide. The rule is known.
type Outcome struct {
	Allowed          bool
	Source           Source
	Limit, Remaining int64
}

// Waits is the other half.
type Waits struct {
	RetryAfter, ResetAfter, Delay time.Duration
}

// Decision returns the whole.
func (o Outcome) Decision(w Waits, rule string) (d Decision) {
	d.join(o, w, rule)
	return d
}

// join sets the fields in place, one by one: a Decision that is copied whole right after that makes the processor wait.
func (d *Decision) join(o Outcome, w Waits, rule string) {
	d.Allowed, d.Source, d.Limit, d.Remaining = o.Allowed, o.Source, o.Limit, o.Remaining
	d.RetryAfter, d.ResetAfter, d.Delay = w.RetryAfter, w.ResetAfter, w.Delay
	d.Rule = rule
}

// bind returns the shorter way to the buckets of the rule, nil if there is none.
func (l *Limiter) bind() BoundRule {
	if b, ok := l.store.(Binder); ok {
		return b.Bind(l.store, l.cfg.Rule)
	}
	return nil
}
