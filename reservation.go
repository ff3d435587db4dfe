package tidegate

import (
	"context"
	"time"
)

// A Reservation is a charge for a start now or later. It stays charged unless it is cancelled or settled.
type Reservation struct {
	limiter  *Limiter
	key      string
	id       string
	at       time.Time // when the decision arrived, on this process's clock
	decision Decision
}

// Reserve is ReserveN with a cost of 1.
func (l *Limiter) Reserve(ctx context.Context, key string) (*Reservation, error) {
	return l.ReserveN(ctx, key, 1)
}

// ReserveN charges n tokens now, for a start that may be later, by MaxWait at most. The caller must wait for the
// reservation's Delay before it acts. One that is not OK charged nothing.
// Sliding logs and permits have no reservations: [ErrUnsupported].
func (l *Limiter) ReserveN(ctx context.Context, key string, n int64) (*Reservation, error) {
	v := l.current.Load()
	return l.reserve(ctx, v, key, n, v.maxWait, l.cfg.SettleWithin)
}

// ReserveWithin is ReserveN for a start that may be later by wait at most, in place of MaxWait, to be settled within hold
// after its start, in place of SettleWithin. With a wait of 0 it is for now, but on a leaky bucket for when the queue says;
// with a hold of 0 it can only be cancelled, until it starts.
func (l *Limiter) ReserveWithin(ctx context.Context, key string, n int64, wait, hold time.Duration) (*Reservation, error) {
	return l.reserve(ctx, l.current.Load(), key, n, max(0, wait), max(0, hold))
}

func (l *Limiter) reserve(ctx context.Context, v *version, key string, n int64, maxWait, hold time.Duration) (*Reservation, error) {
	if a := v.limit.Algorithm; a == SlidingLog || a == Concurrency {
		return nil, ErrUnsupported // a store would take the reservation's ID for that of a permit
	}
	c := l.charge(v, key, n)
	r := &Reservation{limiter: l, key: key}
	if n > 0 {
		c.MaxWait, c.Hold, c.ID = maxWait, hold, newID()
	}
	d, err := l.take(ctx, &c)
	if err != nil {
		return nil, err
	}
	r.decision, r.at = d, time.Now()
	if d.Allowed && v.limit.Algorithm != Unlimited { // without a limit there is nothing to give back
		r.id = c.ID
	}
	return r, nil
}

// OK says whether the reservation was made.
func (r *Reservation) OK() bool { return r.decision.Allowed }

// Decision returns the decision that made or refused the reservation.
func (r *Reservation) Decision() Decision { return r.decision }

// Delay returns how long to wait from now before acting; 0 when the time has come, [Never] for one that is not OK.
func (r *Reservation) Delay() time.Duration {
	if !r.decision.Allowed {
		return Never
	}
	return max(0, r.decision.Delay-time.Since(r.at))
}

// ID names the reservation, so that another process can settle it: see [Limiter.Settle]. Empty for one that is not OK,
// and for one of an unlimited limit, which charged nothing.
func (r *Reservation) ID() string { return r.id }

// Cancel gives back all that was charged. It is [ErrUnknownID] if the reservation was cancelled or settled before or has
// lapsed; one that charged nothing has nothing to give back.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.Settle(ctx, 0)
}

// Settle sets the cost that the reservation turned out to have: a rest is refunded into the window that was charged, an
// excess is charged, into debt if need be. It works once, as [Reservation.Cancel] does.
func (r *Reservation) Settle(ctx context.Context, cost int64) error {
	if r.id == "" {
		return nil
	}
	return r.limiter.Settle(ctx, r.key, r.id, cost)
}

// Cancel cancels the reservation id on the key; see [Reservation.Cancel].
func (l *Limiter) Cancel(ctx context.Context, key, id string) error {
	return l.Settle(ctx, key, id, 0)
}

// Settle settles the reservation id on the key; see [Reservation.Settle].
func (l *Limiter) Settle(ctx context.Context, key, id string, cost int64) error {
	return l.store.Settle(ctx, id, l.charges(key), cost)
}

// Wait is WaitN with a cost of 1.
func (l *Limiter) Wait(ctx context.Context, key string) error {
	return l.WaitN(ctx, key, 1)
}

// WaitN charges n tokens and sleeps once, for as long as the store says, until they may be used. Callers are served in
// the order in which the store saw them, across replicas.
//
// If the wait would be longer than the context leaves, or than MaxWait, it returns a [*DeadlineError] at once and nothing
// is charged; if n is above capacity, [ErrNever]. If the context ends during the sleep, what was charged is given back
// and the context's error returned.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v := l.current.Load()
	maxWait := v.maxWait
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = min(maxWait, time.Until(deadline))
		if maxWait < time.Microsecond {
			return &DeadlineError{Have: maxWait}
		}
	}
	r, err := l.reserve(ctx, v, key, n, maxWait, 0)
	if err != nil {
		return err
	}
	if d := r.decision; !d.Allowed {
		if d.RetryAfter == Never {
			return ErrNever
		}
		return &DeadlineError{Need: d.RetryAfter, Have: maxWait}
	}
	delay := r.Delay()
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	}
	// The caller is gone, the charge is not: give it back on a context of its own, briefly.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.Cancel(back) // what cannot be given back stays charged
	return ctx.Err()
}
