package tidegate

import "context"

// A Permit is a place among those in flight under a [Concurrency] limit, held for the limit's TTL unless it is renewed.
type Permit struct {
	limiter  *Limiter
	key      string
	id       string
	decision Decision
}

// Acquire takes a permit now or not at all: see [Permit.OK]. It is [ErrUnsupported] for limits of other algorithms.
func (l *Limiter) Acquire(ctx context.Context, key string) (*Permit, error) {
	return l.AcquireN(ctx, key, 1)
}

// AcquireN takes n places at once, for work that weighs as much.
func (l *Limiter) AcquireN(ctx context.Context, key string, n int64) (*Permit, error) {
	v := l.current.Load()
	switch {
	case v.limit.Algorithm == Unlimited || v.limit.Algorithm == None:
	case v.limit.Algorithm != Concurrency:
		return nil, ErrUnsupported
	}
	c := l.charge(v, key, n)
	c.ID = newID()
	d, err := l.take(ctx, &c)
	if err != nil {
		return nil, err
	}
	p := &Permit{limiter: l, key: key, decision: d}
	if d.Allowed && v.limit.Algorithm == Concurrency && n > 0 {
		p.id = c.ID
	}
	return p, nil
}

// OK says whether the permit was given.
func (p *Permit) OK() bool { return p.decision.Allowed }

// Decision returns the decision that gave or refused the permit.
func (p *Permit) Decision() Decision { return p.decision }

// ID names the permit, so that another process can renew or release it. Empty for one that is not OK.
func (p *Permit) ID() string { return p.id }

// Renew holds the permit for the limit's TTL from now. It is [ErrUnknownID] if the permit has expired or was released:
// its place may be taken, and the work should stop.
func (p *Permit) Renew(ctx context.Context) error {
	if p.id == "" {
		return nil
	}
	return p.limiter.Renew(ctx, p.key, p.id)
}

// Release gives the place back. It is [ErrUnknownID] if the permit has expired or was released; one that is not OK has
// nothing to give back.
func (p *Permit) Release(ctx context.Context) error {
	if p.id == "" {
		return nil
	}
	return p.limiter.Release(ctx, p.key, p.id)
}

// Renew renews the permit id on the key; see [Permit.Renew].
func (l *Limiter) Renew(ctx context.Context, key, id string) error {
	return l.store.Renew(ctx, id, l.charges(key))
}

// Release releases the permit id on the key; see [Permit.Release].
func (l *Limiter) Release(ctx context.Context, key, id string) error {
	return l.store.Release(ctx, id, l.charges(key))
}
