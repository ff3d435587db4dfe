package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// waiter is a take that may be sent by another goroutine than its caller's, or several that are alike: see alike.go.
// It shares no memory with the callers, who may leave.
type waiter struct {
	taking
	charges []tidegate.Charge
	since   time.Duration // since the store began
	done    chan struct{} // tells the first caller
	self    [1]*taking    // of one that is sent alone
	plan    plan
	pool    *sync.Pool

	callers int
	others  chan struct{} // tells those after the first, by being closed
	formed  bool          // into a batch: nobody joins or leaves any more
	left    []int         // which callers left before
	reading atomic.Int32  // callers who have not read yet what they are told
}

func (bs *batches) newWaiter(items []item) *waiter {
	w := bs.waiters.Get().(*waiter)
	for i := range items {
		w.charges = append(w.charges, *items[i].charge)
	}
	for i := range items {
		it := items[i]
		it.charge = &w.charges[i]
		w.items = append(w.items, it)
		w.decisions = append(w.decisions, tidegate.Decision{})
	}
	w.hold = holdingOf(w.items)
	w.quick = w.isQuick()
	w.callers, w.times = 1, 1
	return w
}

// told copies out what the nth caller of the waiter was told. The last one puts the waiter back.
func (w *waiter) told(nth int, decisions []tidegate.Decision) error {
	err := w.answer(nth, decisions)
	if w.reading.Add(-1) == 0 {
		w.release()
	}
	return err
}

// answer copies out what the nth caller of the waiter was told.
func (w *waiter) answer(nth int, decisions []tidegate.Decision) error {
	switch i := w.place(nth); {
	case w.err != nil:
		return w.err
	case w.each != nil:
		copy(decisions, w.each[i].decisions)
		return w.each[i].err
	case w.ran.told:
		w.ran.tell(&w.items[0], i, &decisions[0])
	default:
		copy(decisions, w.decisions)
	}
	return nil
}

// release puts a waiter that nobody else holds back. What it still refers to is overwritten by the next take, or goes with
// the pool.
func (w *waiter) release() {
	w.items, w.charges, w.decisions = w.items[:0], w.charges[:0], w.decisions[:0]
	w.dry, w.err, w.each, w.ran = false, nil, nil, ran{}
	w.others, w.formed = nil, false // and nobody left: else it is not put back
	w.pool.Put(w)
}
