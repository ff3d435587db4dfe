package remotestore

import (
	"context"

	"github.com/tidegate-go/tidegate"
)

// A caller may leave while the server decides. A charge stays then: the limit holds. But a permit, or a reservation, has an id
// that nobody knows any more, and would occupy its place until it expires; so it is given back as soon as it is there.

// id is that by which what the take was given is given back; empty where nothing is.
func (w *waiter) id() string {
	for i := range w.charges {
		if c := &w.charges[i]; c.ID != "" && c.Cost > 0 {
			return c.ID
		}
	}
	return ""
}

// leavesTraces reports whether a take leaves what has to be given back by its id, and its caller may leave: such a take is not
// sent on its caller's goroutine, since then nobody would learn what became of it.
func (w *waiter) leavesTraces(ctx context.Context) bool { return w.id() != "" && ctx.Done() != nil }

// giveUp waits for the answer to a take that its caller has left, and gives back what it was given. A call is bounded by the
// store's timeout, and so is what follows.
func (d *dispatcher) giveUp(ctx context.Context, w *waiter) {
	<-w.done
	if w.err != nil || !tidegate.Combine(w.charges, w.decisions).Allowed {
		return // and the waiter is not used again
	}
	var permits, others []tidegate.Charge
	for i := range w.charges {
		if c := w.charges[i]; c.Limit.Algorithm == tidegate.Concurrency {
			permits = append(permits, c)
		} else {
			others = append(others, c)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.store.cfg.Timeout)
	defer cancel()
	id := w.id()
	if permits != nil { // what cannot be given back expires, or stays charged
		_ = d.store.Release(ctx, id, permits)
	}
	if others != nil {
		_ = d.store.Settle(ctx, id, w.charges, 0)
	}
}
