package redisstore

import (
	"context"
	"time"
)

// bounded is a context with an earlier deadline, without the timer that would end it: a take that goes out alone pays for
// one, and then is answered long before. The client looks at the deadline for whatever it does at a socket, and its waits
// for a connection are bounded by timeouts of its own, as long as the store's; so it is enough for a single server's
// client, and for nobody who waits for Done alone.
type bounded struct {
	context.Context //nolint:containedctx // it is one
	deadline        time.Time
}

// bound bounds the call of a take that goes out alone.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.cluster || len(s.cfg.Hooks) > 0 { // who may wait otherwise
		return context.WithTimeout(ctx, s.cfg.Timeout)
	}
	deadline := time.Now().Add(s.cfg.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		return ctx, func() {}
	}
	return &bounded{ctx, deadline}, func() {}
}

// Deadline returns the time at which the call is given up.
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Err tells of a deadline that has passed, although Done does not.
func (b *bounded) Err() error {
	if err := b.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
