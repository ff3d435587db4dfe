package grpclimit

import (
	"context"
	"time"

	"github.com/tidegate-go/tidegate"
)

// wait is the patience of one call or message: it may sleep several times, for MaxWait in all, and is one of MaxWaiting
// from when it enters until it ends.
type wait struct {
	gate  *gate
	until time.Time // when its patience ends; zero before it enters
}

// enter reports whether the caller may sleep for d: not where d is longer than the patience or the context lasts, nor where
// too many wait already.
func (w *wait) enter(ctx context.Context, d time.Duration) bool {
	g := w.gate
	if g.maxWait == 0 || d == tidegate.Never || ctx.Err() != nil {
		return false
	}
	now := time.Now()
	until := w.until
	if until.IsZero() {
		until = now.Add(g.maxWait)
	}
	if d > until.Sub(now) {
		return false
	}
	if end, ok := ctx.Deadline(); ok && d >= end.Sub(now) {
		return false
	}
	if w.until.IsZero() {
		if g.waiting.Add(1) > g.maxWaiting {
			g.waiting.Add(-1)
			return false
		}
		w.until = until
	}
	return true
}

// left is how long it may still sleep, once it has entered.
func (w *wait) left(ctx context.Context) time.Duration {
	left := time.Until(w.until)
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	return max(left, 0)
}

// end gives the place among those that wait back.
func (w *wait) end() {
	if !w.until.IsZero() {
		w.gate.waiting.Add(-1)
		w.until = time.Time{}
	}
}

// sleep sleeps for d, or until the context ends, whose error it returns; at once if that is bound to come first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		if err := ctx.Err(); err != nil {
			return err
		}
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
