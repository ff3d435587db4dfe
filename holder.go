package tidegate

import (
	"context"
	"sync/atomic"
	"time"
)

// A Holder is a [Decider] for requests that take their time: it lets them wait for their turn, gives back what is not counted in
// the end, and holds a permit as long as one is served. A [*Limiter] is one, and so is an engine of many rules.
//
// It is one interface rather than one for charges and one for permits, since a request may be subject to both, and what it
// charges and takes has to be all or nothing.
type Holder interface {
	Decider
	// HoldFor charges as Decide does, on the terms, and takes a permit under each limit of permits that the attributes select.
	// The hold is what there is to give back; nil where there is nothing, as for a request that is refused.
	// Where the decision has a Delay, the request is to wait for it before it starts.
	//
	// It is [ErrUnsupported] if it is to be given back by the terms and a limit, such as a sliding log, cannot do that.
	HoldFor(ctx context.Context, attributes Attributes, t Terms) (Decision, Hold, error)
}

// Terms are on what a [Holder] is asked to charge.
type Terms struct {
	// Cost is how much to charge, at least 1; for permits, how many to take.
	Cost int64
	// MaxWait allows the request to start up to so much later, as [Charge.MaxWait] does. A limit that knows no turns, such as
	// one of permits, decides for now. Default: 0, it starts now, but for the queue of a leaky bucket.
	MaxWait time.Duration
	// CancelWithin is how long after its start all can still be given back. Default: 0, until it starts.
	CancelWithin time.Duration
	// NoPermits takes none, for what is part of a request that holds its own. Default: false.
	NoPermits bool
}

// A Hold is what a request has charged and occupies. Either it is given up by Release, or it is given back by Cancel; of both
// only the first call counts, and another is [ErrUnknownID]. It is safe for concurrent use.
type Hold interface {
	// TTL is how long the permits are held, from when they were taken or last renewed; 0 where there are none.
	TTL() time.Duration
	// Renew holds the permits for their TTL from now. It is [ErrUnknownID] if that was over before for any of them.
	Renew(ctx context.Context) error
	// Release gives the permits back. What was charged stays charged.
	Release(ctx context.Context) error
	// Cancel gives back the permits, and all that was charged. What cannot be given back any more stays charged: [ErrUnknownID].
	Cancel(ctx context.Context) error
}

// A Teller is a [Decider] that tells by which limit it decided, of which the decision has no more than the capacity.
type Teller interface {
	// LimitOf returns the limit of the rule that a decision names and whose capacity is the decision's Limit. It must not be
	// changed. It is nil where it is not known, as of a rule that is gone meanwhile.
	LimitOf(rule string, capacity int64) *Limit
}

var (
	_ Holder = (*Limiter)(nil)
	_ Teller = (*Limiter)(nil)
)

// HoldFor implements [Holder] for the bucket that the attribute KeyBy names. Without that attribute the limit does not apply.
func (l *Limiter) HoldFor(ctx context.Context, attributes Attributes, t Terms) (Decision, Hold, error) {
	key, ok := attributes.Attribute(l.cfg.KeyBy)
	if !ok {
		return Combine(nil, nil), nil, nil
	}
	v := l.current.Load()
	c := l.charge(v, key, t.Cost)
	permits := v.limit.Algorithm == Concurrency
	switch {
	case t.Cost <= 0: // a peek, or a refund, holds nothing
	case permits && t.NoPermits:
		return Combine(nil, nil), nil, nil
	case permits:
		c.ID = newID()
	case v.limit.Algorithm == SlidingLog && t.CancelWithin > 0:
		return Decision{}, nil, ErrUnsupported
	case v.limit.Algorithm == SlidingLog || v.limit.Algorithm == Unlimited || v.limit.Algorithm == None:
	case t.MaxWait > 0 || t.CancelWithin > 0 || v.limit.Algorithm == LeakyBucket:
		c.ID, c.MaxWait, c.Hold = newID(), max(0, t.MaxWait), max(0, t.CancelWithin)
	}
	if c.ID == "" {
		d, err := l.AllowN(ctx, key, t.Cost)
		return d, nil, err
	}
	d, err := l.take(ctx, &c)
	if err != nil || !d.Allowed || !permits && d.Delay == 0 && c.Hold == 0 {
		return d, nil, err
	}
	h := &limiterHold{limiter: l, key: key, id: c.ID, cost: c.Cost, settles: c.Hold > 0}
	if permits {
		h.ttl = v.limit.TTL
	}
	return d, h, nil
}

// LimitOf implements [Teller]: there is one limit, whatever part of it a decision is about.
func (l *Limiter) LimitOf(rule string, _ int64) *Limit {
	if rule != l.cfg.Rule {
		return nil
	}
	return &l.current.Load().limit
}

// limiterHold is a permit, or else a reservation.
type limiterHold struct {
	limiter *Limiter
	key, id string
	cost    int64
	ttl     time.Duration // 0: a reservation
	settles bool          // whether the store remembers that beyond its start
	over    atomic.Bool
}

// TTL implements [Hold].
func (h *limiterHold) TTL() time.Duration { return h.ttl }

// Renew implements [Hold].
func (h *limiterHold) Renew(ctx context.Context) error {
	if h.ttl == 0 {
		return nil
	}
	return h.limiter.Renew(ctx, h.key, h.id)
}

// Release implements [Hold]. A reservation is settled as it was made, so that the store can forget it.
func (h *limiterHold) Release(ctx context.Context) error {
	switch {
	case h.over.Swap(true):
		return ErrUnknownID
	case h.ttl > 0:
		return h.limiter.Release(ctx, h.key, h.id)
	case h.settles:
		return h.limiter.Settle(ctx, h.key, h.id, h.cost)
	}
	return nil
}

// Cancel implements [Hold].
func (h *limiterHold) Cancel(ctx context.Context) error {
	switch {
	case h.over.Swap(true):
		return ErrUnknownID
	case h.ttl > 0:
		return h.limiter.Release(ctx, h.key, h.id)
	}
	return h.limiter.Settle(ctx, h.key, h.id, 0)
}
