package downstream

import "time"

const slices = 10

// tally is what happened in a time.
type tally struct {
	calls, failures, slow int64
	takes, refusals       int64
}

func (t *tally) add(o tally, sign int64) {
	t.calls += sign * o.calls
	t.failures += sign * o.failures
	t.slow += sign * o.slow
	t.takes += sign * o.takes
	t.refusals += sign * o.refusals
}

// window adds up what happened lately, in slices that leave it one by one.
type window struct {
	slice  time.Duration
	last   int64 // the number of the latest slice
	ring   [slices]tally
	within tally // the sum of all slices
}

func newWindow(length time.Duration) window { return window{slice: length / slices} }

// at moves on to the slice of the time, and returns it.
func (w *window) at(now time.Duration) *tally {
	n := int64(now / w.slice)
	if n-w.last >= slices {
		w.clear()
		w.last = n
	}
	for w.last < n {
		w.last++
		old := &w.ring[w.last%slices]
		w.within.add(*old, -1)
		*old = tally{}
	}
	return &w.ring[w.last%slices]
}

func (w *window) add(now time.Duration, t tally) {
	w.at(now).add(t, 1)
	w.within.add(t, 1)
}

// clear forgets all.
func (w *window) clear() {
	w.ring, w.within = [slices]tally{}, tally{}
}
