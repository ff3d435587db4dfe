package redisstore

import (
	"context"

	"github.com/tidegate-go/tidegate"
)

// A caller may leave while what it asked for is decided. A charge stays then: the limit holds. But a permit, or a reservation, has
// an id that nobody knows any more, and would occupy its place until it expires; so it is given back as soon as it is there.

// leavesTraces reports whether a take leaves what has to be given back by its id, and its caller may leave: such a take is not
// sent on its caller's goroutine, since then nobody would learn what became of it.
func (w *waiter) leavesTraces(ctx context.Context) bool { return w.hold.id != "" && ctx.Done() != nil }

// giveUp waits for the decision on a take that its caller has left, and gives back what it was given. A batch is bounded by the
// store's timeout, and so is this.
func (d *dispatcher) giveUp(ctx context.Context, w *waiter, done <-chan struct{}, nth int) {
	<-done
	decisions := make([]tidegate.Decision, len(w.items))
	if w.answer(nth, decisions) != nil || refuse(w.items, decisions) {
		return // and the waiter is not used again: this caller has not read its part
	}
	all := make([]int, 0, len(w.items))
	for i := range w.items {
		if w.items[i].key != "" {
			all = append(all, i)
		}
	}
	d.store.giveBack(ctx, w.items, [][]int{all}, decisions, w.hold.id)
}
