package remotestore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/due"
	"github.com/tidegate-go/tidegate/remotestore/internal/wire"
)

// Group commit, as package redisstore has it. A take of idle buckets goes out at once, on its caller's goroutine, and nothing is
// added to it. Takes of a bucket whose call is in flight wait for that call, and leave together as the next one, in the order
// in which they came; takes of other buckets that are ready at the same moment ride along, in at most maxInFlight
// calls at a time. That a bucket is in one call at a time keeps the order of its takes, and makes calls large.

const (
	maxInFlight = 4
	// worthwhile is the part of what is in flight that has to be ready before another call leaves: a quarter, so that small
	// ones beside a large one do not take up the four places.
	worthwhile = 4
	// maxTakes, batchCharges and batchBytes bound a call, the last for the server's sake; a take that is larger is a call of its own.
	maxTakes     = 1024
	batchCharges = 4096
	batchBytes   = 256 << 10
	maxQueued    = 1 << 17
	maxSpare     = 128
)

var errQueueFull = errors.New("too many takes are waiting")

// bucket names a bucket.
type bucket struct{ rule, key string }

// busyBucket is a bucket that is in a call in flight.
type busyBucket struct {
	batch  uint64
	behind []*waiter
}

// waiter is a take on its way. It shares no memory with its caller, who may leave.
type waiter struct {
	charges   []tidegate.Charge
	decisions []tidegate.Decision
	err       error
	size      int           // about, in a message
	since     time.Duration // since the store began
	gone      bool
	sent      bool
	done      chan struct{}
	self      [1]*waiter // of one that is sent alone
}

// dispatcher collects takes and sends them.
type dispatcher struct {
	store   *Store
	waiters sync.Pool // each store's own: a channel of a test's bubble is of no use in another

	mu       sync.Mutex
	busy     map[bucket]*busyBucket
	spare    []*busyBucket
	ready    []*waiter // in the order in which they are to be decided
	queued   int       // waiters, ready or behind a busy bucket
	inFlight int       // calls, and senders about to make one
	flying   int       // takes in these calls
	senders  int       // goroutines that send for others
	forming  int       // senders that are about to look at ready
	batch    uint64    // number of the latest
}

func (d *dispatcher) init(s *Store) {
	d.store = s
	d.busy = map[bucket]*busyBucket{}
	d.waiters.New = func() any { return &waiter{done: make(chan struct{}, 1)} }
}

// take decides a take, alone or with others that are waiting.
func (d *dispatcher) take(ctx context.Context, charges []tidegate.Charge, decisions []tidegate.Decision) error {
	w := d.newWaiter(charges)
	d.mu.Lock()
	if d.senders == 0 && d.inFlight < maxInFlight && len(d.ready) == 0 && d.idle(w) && !w.leavesTraces(ctx) {
		d.inFlight++
		d.flying++
		d.batch++
		d.claimAll(w)
		d.mu.Unlock()
		return d.alone(ctx, w, decisions)
	}
	if d.queued >= maxQueued {
		d.mu.Unlock()
		d.release(w)
		return &tidegate.StoreError{Op: "take", Err: errQueueFull}
	}
	w.since = d.store.elapsed()
	d.queued++
	if d.forming > 0 && len(d.ready) > 0 || !d.behind(w, 0) { // whoever is forming keeps the order
		d.ready = append(d.ready, w)
		d.spawn()
	}
	d.mu.Unlock()
	if !d.await(ctx, w) {
		return ctx.Err()
	}
	return d.told(w, decisions)
}

// await waits until the take is decided; it is not if the context ends before.
func (d *dispatcher) await(ctx context.Context, w *waiter) (decided bool) {
	gone, late := due.Ends(ctx)
	select {
	case <-w.done:
		return true
	case <-gone:
	case <-late:
	}
	d.mu.Lock()
	w.gone = true // the sender passes over it, or nobody reads what it is told
	sent := w.sent
	d.mu.Unlock()
	select {
	case <-w.done: // it was decided after all
		return true
	default:
	}
	if sent && w.id() != "" {
		go d.giveUp(context.WithoutCancel(ctx), w)
	}
	return false
}

// alone sends a take on its caller's goroutine.
func (d *dispatcher) alone(ctx context.Context, w *waiter, decisions []tidegate.Decision) error {
	s := d.store
	w.self[0] = w
	bounded, cancel := s.bound(ctx)
	err := s.ask(bounded, w.self[:])
	cancel()
	d.mu.Lock()
	d.freeAll(w)
	d.inFlight--
	d.flying--
	d.spawn()
	d.mu.Unlock()
	if err != nil {
		w.err = s.failure(ctx, "take", err)
	}
	return d.told(w, decisions)
}

func (d *dispatcher) newWaiter(charges []tidegate.Charge) *waiter {
	w := d.waiters.Get().(*waiter)
	w.charges = append(w.charges, charges...)
	for i := range charges {
		w.decisions = append(w.decisions, tidegate.Decision{})
		w.size += wire.Size(&charges[i])
	}
	return w
}

// told copies out what the waiter was told, and puts back a waiter that nobody else holds.
func (d *dispatcher) told(w *waiter, decisions []tidegate.Decision) error {
	err := w.err
	if err == nil {
		copy(decisions, w.decisions)
	}
	d.release(w)
	return err
}

// release puts a waiter that nobody else holds back. What it still refers to is overwritten by the next take, or goes with
// the pool.
func (d *dispatcher) release(w *waiter) {
	w.charges, w.decisions = w.charges[:0], w.decisions[:0]
	w.err, w.gone, w.sent, w.size = nil, false, false, 0
	d.waiters.Put(w)
}

func named(c *tidegate.Charge) bucket { return bucket{c.Rule, c.Key} }

// idle reports whether none of the buckets is in flight.
func (d *dispatcher) idle(w *waiter) bool {
	for i := range w.charges {
		if d.busy[named(&w.charges[i])] != nil {
			return false
		}
	}
	return true
}

// claimAll notes that the buckets of a take are in the latest batch.
func (d *dispatcher) claimAll(w *waiter) {
	for i := range w.charges {
		b := named(&w.charges[i])
		if d.busy[b] != nil {
			continue
		}
		var k *busyBucket
		if n := len(d.spare); n > 0 {
			k, d.spare = d.spare[n-1], d.spare[:n-1]
		} else {
			k = new(busyBucket)
		}
		k.batch = d.batch
		d.busy[b] = k
	}
}

// freeAll notes that the buckets of a take are no longer in flight, and makes ready what waited for them.
func (d *dispatcher) freeAll(w *waiter) {
	for i := range w.charges {
		b := named(&w.charges[i])
		k := d.busy[b]
		if k == nil {
			continue
		}
		delete(d.busy, b)
		d.ready = append(d.ready, k.behind...)
		clear(k.behind)
		k.behind = k.behind[:0]
		if len(d.spare) < maxSpare {
			d.spare = append(d.spare, k)
		}
	}
}

// behind puts a waiter behind a bucket of its that another batch than mine has, if there is one.
func (d *dispatcher) behind(w *waiter, mine uint64) bool {
	for i := range w.charges {
		if k := d.busy[named(&w.charges[i])]; k != nil && k.batch != mine {
			k.behind = append(k.behind, w)
			return true
		}
	}
	return false
}

// spawn starts a sender if something is ready and nobody will look at it.
func (d *dispatcher) spawn() {
	if len(d.ready) > 0 && d.forming == 0 && d.inFlight < maxInFlight && len(d.ready)*worthwhile >= d.flying {
		d.forming++
		d.senders++
		d.inFlight++
		go d.send()
	}
}

// send sends what is ready, batch after batch, until nothing is.
func (d *dispatcher) send() {
	s := d.store
	var batch, late []*waiter // used again and again
	for {
		d.linger()
		d.mu.Lock()
		d.forming--
		batch, late = d.form(batch[:0], late[:0])
		if len(batch) == 0 {
			d.senders--
			d.inFlight--
			d.spawn()
			d.mu.Unlock()
			deliver(late)
			return
		}
		d.flying += len(batch)
		d.spawn() // what did not fit
		d.mu.Unlock()
		deliver(late)

		ctx, cancel := s.bound(context.Background())
		err := s.ask(ctx, batch)
		cancel()
		if err != nil {
			err = s.failure(context.Background(), "take", err)
			for _, w := range batch {
				w.err = err
			}
		}

		d.mu.Lock()
		d.flying -= len(batch)
		d.forming++ // callers that are told now and ask again at once shall find somebody who forms
		for _, w := range batch {
			d.freeAll(w)
		}
		d.mu.Unlock()
		deliver(batch)
	}
}

// linger lets those run who are about to ask, as long as more of them come: they were told together, and shall leave
// together. It takes no time that a processor is not put to use in.
func (d *dispatcher) linger() {
	const most = 4
	last := -1
	for range most {
		d.mu.Lock()
		n := d.queued
		d.mu.Unlock()
		if n == last || n >= maxTakes {
			return
		}
		last = n
		runtime.Gosched()
	}
}

// form takes a batch off the ready ones: all whose buckets are not in another batch, as many as one call may have.
// Late are those that have waited for too long to be sent. Both are appended.
func (d *dispatcher) form(batch, late []*waiter) (sent, tooLate []*waiter) {
	d.batch++
	now := d.store.elapsed()
	charges, size := 0, 0
	rest := d.ready[:0]
	for i, w := range d.ready {
		full := len(batch) >= maxTakes || charges+len(w.charges) > batchCharges || size+w.size > batchBytes
		if full && len(batch) > 0 {
			rest = append(rest, d.ready[i:]...)
			break
		}
		switch {
		case w.gone:
			d.queued--
		case now-w.since >= d.store.cfg.Timeout:
			d.queued--
			w.err = d.store.failure(context.Background(), "take", context.DeadlineExceeded)
			late = append(late, w)
		case d.behind(w, d.batch):
		default:
			d.queued--
			charges += len(w.charges)
			size += w.size
			d.claimAll(w)
			w.sent = true
			batch = append(batch, w)
		}
	}
	clear(d.ready[len(rest):])
	d.ready = rest
	return batch, late
}

func deliver(ws []*waiter) {
	for _, w := range ws {
		w.done <- struct{}{}
	}
}
