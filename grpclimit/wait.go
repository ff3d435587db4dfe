package grpclimit

import (
	"context"
	"time"

	"github.com/tidegate-go/tidegate"
)

// wait is the patience of one call or message: it may sleep several times, for MaxWait in all, and is one of MaxWaiting
// from its first sleep until it ends.
type wait struct {
	gate  *gate
	until time.Time // when its patience ends; zero before the first sleep
}

// sleep sleeps for d and reports true; or it reports false, at once where d is longer than the patience or the context
// lasts or where too many wait already, or when the context ends.
func (w *wait) sleep(ctx context.Context, d time.Duration) bool {
	g := w.gate
	if g.maxWait == 0 || d == tidegate.Never {
		return false
	}
	d = max(d, time.Millisecond) // a decider that says 0 is not asked in a loop
	now := time.Now()
	first := w.until.IsZero()
	if first {
		w.until = now.Add(g.maxWait)
	}
	if d > w.until.Sub(now) {
		return w.refuse(first)
	}
	if end, ok := ctx.Deadline(); ok && d >= end.Sub(now) {
		return w.refuse(first)
	}
	if first && g.waiting.Add(1) > g.maxWaiting {
		g.waiting.Add(-1)
		return w.refuse(first)
	}
	return sleep(ctx, d) == nil
}

// refuse forgets a first sleep that did not come about, so that end gives no place back.
func (w *wait) refuse(first bool) bool {
	if first {
		w.until = time.Time{}
	}
	return false
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
