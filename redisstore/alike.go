package redisstore

import (
	"context"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/algo"
)

// Takes of one plain bucket at one cost differ in nothing but their order. So a caller whose take is like the one that was
// the last to start waiting adds itself to that one's waiter, instead of making its own: all of them are one entry of the
// batch, and each works out its own decision, from what was in use before them and how many of them came first.

// newcomers is the part of the timeout for which others may join a waiter: it is given up as a whole, when the first of
// them has waited for the timeout, and the last shall not be given up much earlier than that.
const newcomers = 64

// simple is a take that may be like others: one of a plain bucket, without an id or a wait, and not in shadow.
type simple struct {
	limit *compiled
	tag   uint32
	key   string
	cost  int64
}

// simpleOf returns the take as a simple one, if it is.
func simpleOf(items []item) (t simple, ok bool) {
	if len(items) != 1 {
		return simple{}, false
	}
	it, c := &items[0], items[0].charge
	return simple{it.limit, it.tag, it.key, c.Cost}, it.limit.tail != "" && c.ID == "" && c.MaxWait <= 0 && !c.Shadow
}

// join adds a caller to the waiter that a waiter of its own would come right after, if their takes are alike. It returns
// which caller of that waiter it is, and what to wait for.
func (d *dispatcher) join(t *simple) (_ *waiter, nth int, done chan struct{}) {
	if d.lately.Load() != t.tag+1 {
		return nil, 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ready := d.lastBefore(t.key)
	if w == nil || !w.isLike(t) || w.callers >= maxTakes || d.queued >= maxQueued ||
		d.store.elapsed()-w.since > d.store.cfg.Timeout/newcomers {
		return nil, 0, nil
	}
	if w.others == nil {
		w.others = make(chan struct{})
	}
	nth = w.callers
	w.callers++
	d.queued++
	if ready {
		d.eager++
		d.spawn()
	}
	return w, nth, w.others
}

// lastBefore returns the waiter that one of the bucket would come right after, and whether that is ready.
func (d *dispatcher) lastBefore(key string) (w *waiter, ready bool) {
	queue, ready := d.ready, true
	if b := d.buckets.named[key]; b != nil && b.flying > 0 && !d.keepsOrder() {
		queue, ready = b.behind, false
	}
	if len(queue) == 0 {
		return nil, false
	}
	return queue[len(queue)-1], ready
}

// isLike reports whether a take is the same as that of the waiter, so that one may stand for both.
func (w *waiter) isLike(t *simple) bool {
	if len(w.items) != 1 || !w.quick {
		return false
	}
	mine := &w.items[0]
	return mine.limit == t.limit && mine.charge.Cost == t.cost && mine.key == t.key
}

// leave takes a caller out that does not wait any longer, and reports whether it is decided for nonetheless.
func (d *dispatcher) leave(w *waiter, nth int) (counted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.formed {
		return true
	}
	w.left = append(w.left, nth)
	return false
}

// place returns which of the takes that are decided is that of the nth caller.
func (w *waiter) place(nth int) int {
	before := 0
	for _, l := range w.left {
		before += boolean(l < nth)
	}
	return nth - before
}

// each makes takings of their own of takes that are alike, for the scripts that decide one by one.
func each(takes []*taking) []*taking {
	alike := 0
	for _, t := range takes {
		alike += t.times - 1
	}
	if alike == 0 {
		return takes
	}
	all := make([]*taking, 0, len(takes)+alike)
	for _, t := range takes {
		if t.times == 1 {
			all = append(all, t)
			continue
		}
		t.each = make([]*taking, t.times)
		for i := range t.each {
			t.each[i] = &taking{items: t.items, quick: t.quick, times: 1, decisions: make([]tidegate.Decision, len(t.items))}
		}
		all = append(all, t.each...)
	}
	return all
}

// ran is what the run script told of the run that a take is part of.
type ran struct {
	told              bool
	used, passed, now int64 // units before the run, how many takes passed, µs
	first             int   // how many takes of the run come before this one
}

// tell writes the decision on the nth of the takes down.
func (r *ran) tell(it *item, nth int, d *tidegate.Decision) {
	p := it.limit.params
	at, q := int64(r.first+nth), algo.Request{Cost: it.charge.Cost}
	st := p.Resume(r.used+min(at, r.passed)*q.Cost*p.Unit(), r.now)
	var v algo.Verdict
	if at < r.passed {
		v = p.Take(&st, q, r.now, algo.Window{})
	} else {
		v = p.Check(&st, q, r.now, algo.Window{})
	}
	remaining, reset := p.Describe(&st, r.now, algo.Window{})
	*d = decide(it, v.OK, p.Capacity, remaining, v.Retry, reset, v.Delay)
}

// failWaiting turns the errors of takes into those of the store.
func (s *Store) failWaiting(takes []*taking) {
	for _, t := range takes {
		if t.err != nil {
			t.err = s.failure(context.Background(), "take", t.err)
		}
		s.failWaiting(t.each)
	}
}
