package lease

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
)

// flight is a call that takes slices ahead beside what its caller asks. It shares no memory with the caller, who may leave.
type flight struct {
	charges   []tidegate.Charge // with the slices
	slices    []ahead
	decisions []tidegate.Decision
	admitted  bool
	err       error
	done      chan struct{} // closed when the above stand

	mu     sync.Mutex
	landed bool
	gone   bool // the caller has left
}

// ahead is a slice of one charge's bucket.
type ahead struct {
	charge int
	cell   *cell
	tokens int64
}

// prepare makes the flight that takes slices for all the charges whose leases do not suffice, and tells their cells; nil
// if there is one of which nothing can be taken ahead, so that the store would have to decide the next take as well. The
// shards are locked.
func (l *Layer) prepare(charges []tidegate.Charge, now int64) *flight {
	var slices []ahead
	for i := range charges {
		c := &charges[i]
		x := l.shards[l.index(c)].cells[bucket{c.Rule, c.Key}]
		if x == nil || x.compare(c) != same {
			return nil
		}
		if x.suffices(now, c.Cost) {
			continue
		}
		n := x.slice(now, c.Cost)
		if n <= 0 {
			return nil
		}
		slices = append(slices, ahead{i, x, n})
	}
	f := &flight{charges: append([]tidegate.Charge(nil), charges...), slices: slices, done: make(chan struct{})}
	for _, a := range slices {
		f.charges[a.charge].Cost += a.tokens
		a.cell.flight = f
	}
	return f
}

// fetch makes the call of a flight. Its caller may leave before it has landed: those who wait for it do not.
func (l *Layer) fetch(ctx context.Context, f *flight, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	away := context.WithoutCancel(ctx)
	if ctx.Done() == nil {
		l.fly(away, f)
	} else {
		go l.fly(away, f)
		select {
		case <-f.done:
		case <-ctx.Done():
			if f.leave() {
				return dst, ctx.Err()
			}
			<-f.done // it has landed, and is about to say so
		}
	}
	switch {
	case f.err != nil:
		return dst, f.err
	case !f.admitted:
		return l.plain(ctx, charges, dst) // what was refused may be the slice
	}
	n := len(dst)
	dst = append(dst, f.decisions...)
	for _, a := range f.slices {
		// A charge in shadow that has no room for a slice may have room for itself.
		if i := a.charge; charges[i].Shadow && !f.decisions[i].Allowed {
			if ds, err := l.plain(ctx, charges[i:i+1], nil); err == nil {
				dst[n+i] = ds[0]
			}
		}
	}
	return dst, nil
}

// leave reports whether the caller leaves before the flight has landed, which then has its tokens too.
func (f *flight) leave() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = !f.landed
	return f.gone
}

// fly makes the call. The lifetime counts from before it is sent: the tokens cannot have left their buckets earlier.
func (l *Layer) fly(ctx context.Context, f *flight) {
	err := errors.New("lease: the call did not return")
	defer func() { l.land(f, math.MinInt64/2, err) }() // nothing waits for ever, should the store panic
	sent := l.now()
	f.decisions, err = l.take(ctx, f.charges, nil)
	l.land(f, sent, err)
}

// land puts what a call brought into the cells, and lets go those who wait for it.
func (l *Layer) land(f *flight, sent int64, err error) {
	locked := l.lock(f.charges)
	f.mu.Lock()
	if f.landed {
		f.mu.Unlock()
		l.unlock(locked)
		return
	}
	f.landed, f.err = true, err
	gone := f.gone
	f.mu.Unlock()
	now := l.now()
	if err == nil {
		f.admitted = allowed(f.charges, f.decisions)
	}
	slices := f.slices
	for i := range f.charges {
		c := &f.charges[i]
		sh := &l.shards[l.index(c)]
		x := sh.cells[bucket{c.Rule, c.Key}]
		own := c.Cost
		var mine *ahead
		if len(slices) > 0 && slices[0].charge == i {
			mine, slices = &slices[0], slices[1:]
			own -= mine.tokens
			if x != mine.cell || x.flight != f {
				x = nil // that lease has ended meanwhile
			} else {
				x.flight = nil
			}
		} else if x != nil && x.compare(c) != same {
			x = nil
		}
		if err != nil {
			continue
		}
		d := &f.decisions[i]
		if x != nil {
			x.note(now, d)
		}
		if !f.admitted || !d.Allowed {
			continue
		}
		tokens := int64(0)
		if mine != nil {
			tokens = mine.tokens
		}
		if gone { // what the caller paid for is left as well
			tokens += own
		} else if x != nil {
			x.use(now, own)
		}
		sh.stats.Taken += tokens
		if mine == nil || x == nil || d.Source != tidegate.SourceStore {
			sh.stats.Lapsed += tokens
			continue
		}
		sh.stats.Lapsed += x.left // too little for what was asked
		x.left, x.until = tokens, sent+x.lifetime
	}
	l.unlock(locked)
	close(f.done)
}

// await waits for another's flight. Its error, if it is the store's, is that of all who wait, who would else find out one
// after the other; any other is its caller's own.
func (l *Layer) await(ctx context.Context, f *flight) error {
	timer := time.NewTimer(l.wait)
	defer timer.Stop()
	select {
	case <-f.done:
		if _, ok := errors.AsType[*tidegate.StoreError](f.err); ok {
			return f.err
		}
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	return nil
}
