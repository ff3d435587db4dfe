package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/due"
)

// Group commit. A take of idle buckets goes out at once, on its caller's goroutine, and nothing is added to it. Takes of
// a bucket whose call is in flight wait for that call, and leave together as the next one, in the order in which they came
// as far as one batch has room for them; takes of other buckets that are ready at the same moment ride along, in at most maxInFlight batches at a time.
// Those that differ in nothing are one entry of it: see alike.go.
//
// The server decides each script at one moment anyhow: that a bucket is in one batch at a time makes batches large and
// keeps the order, and correctness does not hang on it. So where takes of several buckets that wait for one bucket fill a batch
// already, they need not wait for the one that it is in: the bucket then is in two, but never in more, and while some wait for it
// whom the second has passed there is no other before them.

const (
	maxInFlight = 4
	// worthwhile is the part of what is in flight that has to be ready before another batch leaves: a quarter for each that has
	// left. Small ones beside a large one take up the four places and the server, and what comes meanwhile waits for both.
	worthwhile = 4
	// maxTakes and maxKeys bound a batch, so that a script does not hold the server for longer than about 0.3 ms, of which a key
	// takes 2 µs, and 3 µs as a bucket of takes of several.
	maxTakes   = 1024
	maxKeys    = 128
	maxSlow    = 48  // takes that need the take script
	maxSeveral = 384 // charges of takes of several buckets
	maxQueued  = 1 << 17

	// enough charges of takes of several buckets fill a batch, though half of them are of buckets that they share.
	enough = 2 * maxKeys
)

var errQueueFull = errors.New("too many takes are waiting")

// batches holds a dispatcher for each set of buckets that may share a script: all, or those of a tag in a cluster.
type batches struct {
	store   *Store
	all     dispatcher
	byTag   []dispatcher // in a cluster
	senders sync.Pool    // that rest, with the room that they have
	waiters sync.Pool    // each store's own: a channel of a test's bubble is of no use in another
}

func (bs *batches) init(s *Store) {
	bs.store = s
	bs.waiters.New = func() any { return &waiter{pool: &bs.waiters, done: make(chan struct{}, 1)} }
	bs.all.store = s
	if s.cluster {
		bs.byTag = make([]dispatcher, tags)
		for i := range bs.byTag {
			bs.byTag[i].store = s
		}
	}
}

// take decides a take whose buckets may share a script, alone or with others that are waiting.
func (bs *batches) take(ctx context.Context, items []item, decisions []tidegate.Decision) error {
	for i := range items {
		if items[i].key != "" {
			return bs.of(items[i].tag).take(ctx, items, decisions)
		}
	}
	return bs.all.take(ctx, items, decisions)
}

// of returns the dispatcher of buckets of a tag.
func (bs *batches) of(tag uint32) *dispatcher {
	if bs.byTag != nil {
		return &bs.byTag[tag]
	}
	return &bs.all
}

// dispatcher collects takes and sends them.
type dispatcher struct {
	store *Store

	mu       sync.Mutex
	buckets  buckets
	ready    []*waiter // in the order in which they are to be decided
	eager    int       // callers whose waiters are ready
	queued   int       // callers whose waiters are ready or behind a busy key
	inFlight int       // calls, and senders about to make one
	flying   int       // takes in these calls
	senders  int       // goroutines that send for others
	forming  int       // senders that are about to look at ready
	batch    uint64    // number of the latest

	// lately is the tag of the bucket that was waited for last, and one; 0 where nobody waits: whether it is worthwhile to
	// try to join.
	lately atomic.Uint32
}

func (d *dispatcher) take(ctx context.Context, items []item, decisions []tidegate.Decision) error {
	if t, ok := simpleOf(items); ok {
		if w, nth, done := d.join(&t); w != nil {
			return d.await(ctx, w, nth, done, decisions)
		}
	}
	w := d.store.batches.newWaiter(items)
	d.mu.Lock()
	d.buckets.hold(w)
	if d.senders == 0 && d.inFlight < maxInFlight && len(d.ready) == 0 && w.idle() && !w.leavesTraces(ctx) {
		d.inFlight++
		d.flying++
		d.batch++
		d.buckets.claim(w, d.batch)
		d.mu.Unlock()
		return d.alone(ctx, w, decisions)
	}
	if d.queued >= maxQueued {
		d.buckets.letGo(w)
		d.mu.Unlock()
		w.release()
		return &tidegate.StoreError{Op: "take", Err: errQueueFull}
	}
	d.enter(w)
	d.mu.Unlock()
	return d.await(ctx, w, 0, w.done, decisions)
}

// enter lets a waiter that holds on to its buckets wait for them, or makes it ready.
func (d *dispatcher) enter(w *waiter) {
	w.since = d.store.elapsed()
	d.queued++
	if len(w.items) == 1 {
		d.lately.Store(w.items[0].tag + 1)
	}
	if at := w.blocked(0, false); at == nil || d.keepsOrder() {
		d.ready = append(d.ready, w)
		d.eager++
		d.spawn()
	} else {
		at.park(w)
		d.pair(at)
	}
}

// await waits until the take of the waiter's nth caller is decided, unless the context ends before.
func (d *dispatcher) await(ctx context.Context, w *waiter, nth int, done <-chan struct{}, decisions []tidegate.Decision) error {
	gone, late := due.Ends(ctx)
	if gone == nil && late == nil {
		<-done
		return w.told(nth, decisions)
	}
	select {
	case <-done:
		return w.told(nth, decisions)
	case <-gone:
	case <-late:
	}
	if d.leave(w, nth) {
		select {
		case <-done: // it was decided after all
			return w.told(nth, decisions)
		default:
		}
		if w.hold.id != "" {
			go d.giveUp(context.WithoutCancel(ctx), w, done, nth)
		}
	}
	return ctx.Err() // and the waiter is not used again, since nobody reads this caller's part
}

// alone sends a take on its caller's goroutine.
func (d *dispatcher) alone(ctx context.Context, w *waiter, decisions []tidegate.Decision) error {
	s := d.store
	w.self[0] = &w.taking
	bounded, cancel := s.bound(ctx)
	s.decideBatch(bounded, w.self[:], &w.plan)
	cancel()
	d.mu.Lock()
	d.free(w)
	d.inFlight--
	d.flying--
	d.spawn()
	d.mu.Unlock()
	if w.err != nil {
		w.err = s.failure(ctx, "take", w.err)
	}
	w.reading.Store(1)
	return w.told(0, decisions)
}

// free notes that the buckets of a take are no longer in flight, and makes ready what waited for them.
func (d *dispatcher) free(w *waiter) {
	for i := range w.items {
		it := &w.items[i]
		if it.bucket == nil || !d.buckets.end(it) {
			continue
		}
		if it.bucket.flying == 0 {
			d.release(it.bucket)
		} else {
			d.pair(it.bucket)
		}
	}
	d.buckets.letGo(w)
}

// release makes ready what waits for a bucket.
func (d *dispatcher) release(b *bucket) {
	d.ready = append(d.ready, b.behind...)
	for _, w := range b.behind {
		d.eager += w.callers
	}
	clear(b.behind)
	b.behind, b.charges = b.behind[:0], 0
}

// pair makes ready what waits for a bucket, though a batch that it is in is in flight, if that fills one of its own.
func (d *dispatcher) pair(b *bucket) {
	if b.pairable() && b.charges >= enough {
		d.release(b)
		d.spawn()
	}
}

// keepsOrder reports whether somebody is about to form a batch of waiters before which a new one must not come.
func (d *dispatcher) keepsOrder() bool { return d.forming > 0 && len(d.ready) > 0 }

// spawn starts a sender if something is ready and nobody will look at it.
func (d *dispatcher) spawn() {
	if len(d.ready) > 0 && d.forming == 0 && d.inFlight < maxInFlight && d.eager*worthwhile >= d.flying*d.inFlight {
		d.forming++
		d.senders++
		d.inFlight++
		go d.send(d.store.batches.sender())
	}
}

// waiting returns how many callers wait, or as many as a batch can have if no more are needed to fill one.
func (d *dispatcher) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full() {
		return maxTakes
	}
	return d.queued
}

// full reports whether what is ready fills a batch, as far as a look at the takes of several buckets tells.
func (d *dispatcher) full() bool {
	return len(d.ready) >= maxTakes || d.crowded()
}

// crowded reports whether the takes of several buckets that are ready fill a batch.
func (d *dispatcher) crowded() bool {
	charges := 0
	for _, w := range d.ready[:min(len(d.ready), maxTakes)] { // more than a batch has
		charges += w.together()
		if charges >= enough {
			return true
		}
	}
	return false
}

// linger lets those run who are about to ask, as long as more of them come: they were told together, and shall leave
// together. It takes no time that a processor is not put to use in.
func linger(enough int, waiting func() int) {
	const most = 4
	last := -1
	for range most {
		n := waiting()
		if n == last || n >= enough {
			return
		}
		last = n
		runtime.Gosched()
	}
}

// form takes a batch off the ready ones: all whose buckets are not in another batch, or may be in two, as many as one script may decide.
// Late are those that have waited for too long to be sent. Both are appended.
func (d *dispatcher) form(batch, late []*waiter) ([]*waiter, []*waiter) {
	d.batch++
	now, paired := d.store.elapsed(), d.crowded()
	takes, weight, slow, charges := 0, 0, 0, 0
	rest := d.ready[:0]
	for i, w := range d.ready {
		if takes > 0 && takes+w.callers-len(w.left) > maxTakes || weight >= 2*maxKeys || slow >= maxSlow || charges >= maxSeveral {
			rest = append(rest, d.ready[i:]...)
			break
		}
		d.eager -= w.callers
		switch {
		case len(w.left) == w.callers:
			d.queued -= w.callers
			d.buckets.letGo(w)
		case now-w.since >= d.store.cfg.Timeout:
			d.queued -= w.callers
			w.formed = true
			d.buckets.letGo(w)
			w.err = d.store.failure(context.Background(), "take", context.DeadlineExceeded)
			late = append(late, w)
		default:
			if at := w.blocked(d.batch, paired); at != nil {
				at.park(w)
				continue
			}
			d.queued -= w.callers
			w.formed, w.times = true, w.callers-len(w.left)
			takes += w.times
			weight += d.buckets.claim(w, d.batch) * w.weight()
			switch {
			case !w.quick:
				slow++
			case len(w.items) > 1:
				charges += len(w.items)
			}
			batch = append(batch, w)
		}
	}
	clear(d.ready[len(rest):])
	d.ready = rest
	return batch, late
}

// weight returns how much of a script's time a bucket of the take needs; an ordinary one needs 2.
func (t *taking) weight() int {
	if len(t.items) > 1 && !t.items[0].limit.isWindow() {
		return 3
	}
	return 2
}

func (d *dispatcher) deliver(ws []*waiter) {
	for _, w := range ws {
		w.reading.Store(int32(w.callers))
		if w.others != nil {
			close(w.others)
		}
		w.done <- struct{}{} // last: until the first caller has read, the waiter is not used again
	}
}
