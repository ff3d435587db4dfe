package rules

import (
	"context"
	"slices"

	"github.com/tidegate-go/tidegate"
)

// A Held is what a reservation or a permit came to.
type Held struct {
	Decision tidegate.Decision
	// ID names what the store holds since, to settle, renew or release it by; empty where it holds nothing.
	ID string
}

// Reserve charges the cost to a bucket named by rule and key, for a start now or later, by the limit's default MaxWait at
// most; see [tidegate.Limiter.ReserveN]. The errors are those of [Engine.MatchKey] and of the limiter.
func (e *Engine) Reserve(ctx context.Context, rule string, key []string, cost int64) (Held, error) {
	return e.hold(ctx, rule, key, cost, false)
}

// Acquire takes a permit, which weighs cost; see [tidegate.Limiter.AcquireN]. It is a [*PermitsError] for other limits.
func (e *Engine) Acquire(ctx context.Context, rule string, key []string, cost int64) (Held, error) {
	return e.hold(ctx, rule, key, cost, true)
}

// hold reserves, or acquires. What a rule in shadow refuses goes on without being held.
func (e *Engine) hold(ctx context.Context, rule string, key []string, cost int64, acquire bool) (Held, error) {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	if err := ev.matchKey(e.current.Load(), rule, key, cost); err != nil {
		return Held{}, err
	}
	c := &ev.charges[0]
	switch a := c.Limit.Algorithm; {
	case a == tidegate.None || a == tidegate.Unlimited:
	case acquire != (a == tidegate.Concurrency):
		return Held{}, &PermitsError{Rule: rule, Permits: !acquire}
	}
	guarded := e.cfg.Guard != nil && c.Cost > 0
	if guarded {
		ev.matched = ev.appendMatched(ev.matched)
		if d, ok := e.cfg.Guard.Admit(ev.matched); !ok {
			e.count(&d, Refused)
			return Held{Decision: d}, nil
		}
	}
	h, err := e.held(ctx, ev, acquire)
	if guarded && (err != nil || !h.Decision.Allowed) {
		e.cfg.Guard.Refund(ev.matched)
	}
	if err != nil {
		return Held{}, err
	}
	e.observe(c, &h.Decision)
	if c.Shadow {
		h.Decision = tidegate.Combine(ev.charges, []tidegate.Decision{h.Decision})
	}
	return h, nil
}

// held asks the limiter of the evaluation's charge.
func (e *Engine) held(ctx context.Context, ev *evaluation, acquire bool) (Held, error) {
	l, err := e.limiter(ev)
	if err != nil {
		return Held{}, err
	}
	c := &ev.charges[0]
	if acquire {
		p, err := l.AcquireN(ctx, c.Key, c.Cost)
		if err != nil {
			return Held{}, err
		}
		return Held{p.Decision(), p.ID()}, nil
	}
	r, err := l.ReserveN(ctx, c.Key, c.Cost)
	if err != nil {
		return Held{}, err
	}
	return Held{r.Decision(), r.ID()}, nil
}

// limiter returns the limiter of the limit that counts for the evaluation's key. Each limit has one from when it is first
// needed.
func (e *Engine) limiter(ev *evaluation) (*tidegate.Limiter, error) {
	h, c := ev.hits[0], &ev.charges[0]
	p := &h.rule.plans[1+h.override]
	st := &p.now
	if c.Limit != st.limit || c.Version != st.version {
		st = &p.then
	}
	if l := st.limiter.Load(); l != nil {
		return l, nil
	}
	l, err := tidegate.New(e.store, *c.Limit, &tidegate.Config{Rule: c.Rule, Version: c.Version, OnStoreFailure: c.OnFailure})
	if err != nil {
		return nil, err
	}
	st.limiter.CompareAndSwap(nil, l)
	return l, nil
}

// Settle sets the cost that a reservation turned out to have; see [tidegate.Reservation.Settle]. A cost of 0 cancels it.
// The cost is times the rule's own, as that of Reserve is.
func (e *Engine) Settle(ctx context.Context, rule string, key []string, id string, cost int64) error {
	return e.named(rule, key, cost, func(cs []tidegate.Charge) error { return e.store.Settle(ctx, id, cs, cs[0].Cost) })
}

// Renew holds a permit for its limit's TTL from now.
func (e *Engine) Renew(ctx context.Context, rule string, key []string, id string) error {
	return e.named(rule, key, 0, func(cs []tidegate.Charge) error { return e.store.Renew(ctx, id, cs) })
}

// Release gives a permit back.
func (e *Engine) Release(ctx context.Context, rule string, key []string, id string) error {
	return e.named(rule, key, 0, func(cs []tidegate.Charge) error { return e.store.Release(ctx, id, cs) })
}

// Reset makes a bucket as good as new.
func (e *Engine) Reset(ctx context.Context, rule string, key []string) error {
	return e.named(rule, key, 0, func(cs []tidegate.Charge) error { return e.store.Reset(ctx, cs) })
}

// named does what is to be done with the bucket of the rule and the key. The charge is the callee's to keep.
func (e *Engine) named(rule string, key []string, cost int64, do func([]tidegate.Charge) error) error {
	ev := evaluations.Get().(*evaluation)
	defer ev.free()
	if err := ev.matchKey(e.current.Load(), rule, key, cost); err != nil {
		return err
	}
	return do(slices.Clone(ev.charges))
}
