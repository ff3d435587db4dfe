package httplimit

import (
	"context"
	"time"

	"github.com/tidegate-go/tidegate"
)

// A Reserver is a decider whose charges can be for later, and can be settled. A [*tidegate.Limiter] need not be one: it is
// known.
type Reserver interface {
	tidegate.Decider
	// ReserveFor charges as Decide does, for a start that is later by wait at most: the decision's Delay says by how much.
	// It can be settled within hold after its start. The reservation is nil where nothing was charged.
	ReserveFor(
		ctx context.Context, attributes tidegate.Attributes, cost int64, wait, hold time.Duration,
	) (tidegate.Decision, Reservation, error)
}

// A Reservation is a charge that can be settled; [*tidegate.Reservation] is one.
type Reservation interface {
	// Settle sets the cost that it turned out to have; 0 gives back all.
	Settle(ctx context.Context, cost int64) error
}

// An Acquirer is a decider some of whose limits bound what is in flight. A [*tidegate.Limiter] need not be one: it is known.
type Acquirer interface {
	tidegate.Decider
	// AcquireFor charges as Decide does, and takes a permit under each limit of concurrency. The permit is nil where there
	// is nothing to release.
	AcquireFor(ctx context.Context, attributes tidegate.Attributes, cost int64) (tidegate.Decision, Permit, error)
}

// A Permit is a place among those in flight; [*tidegate.Permit] is one.
type Permit interface {
	// Renew holds the permit for its time from now. It is [tidegate.ErrUnknownID] if that was over before.
	Renew(ctx context.Context) error
	// Release gives the place back.
	Release(ctx context.Context) error
}

// limiterDecider makes a limiter a Reserver and an Acquirer. As with Decide, a request without the key's attribute is not
// the limit's.
type limiterDecider struct{ *tidegate.Limiter }

func (l limiterDecider) key(attributes tidegate.Attributes) (string, bool) {
	return attributes.Attribute(l.KeyBy())
}

// permits reports whether the limit bounds what is in flight, now: SetLimit may change it.
func (l limiterDecider) permits() bool { return l.Limit().Algorithm == tidegate.Concurrency }

// ReserveFor reserves for the key that the attributes name.
func (l limiterDecider) ReserveFor(
	ctx context.Context, attributes tidegate.Attributes, cost int64, wait, hold time.Duration,
) (tidegate.Decision, Reservation, error) {
	key, ok := l.key(attributes)
	if !ok {
		return tidegate.Combine(nil, nil), nil, nil
	}
	r, err := l.ReserveWithin(ctx, key, cost, wait, hold)
	if err != nil {
		return tidegate.Decision{}, nil, err
	}
	if r.ID() == "" {
		return r.Decision(), nil, nil
	}
	return r.Decision(), r, nil
}

// AcquireFor acquires for the key that the attributes name.
func (l limiterDecider) AcquireFor(ctx context.Context, attributes tidegate.Attributes, cost int64) (tidegate.Decision, Permit, error) {
	key, ok := l.key(attributes)
	if !ok {
		return tidegate.Combine(nil, nil), nil, nil
	}
	p, err := l.AcquireN(ctx, key, cost)
	if err != nil {
		return tidegate.Decision{}, nil, err
	}
	if p.ID() == "" {
		return p.Decision(), nil, nil
	}
	return p.Decision(), p, nil
}
