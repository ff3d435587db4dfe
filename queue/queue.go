package queue

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Queue runs jobs of type T, one after the other as they were put, each at its turn. It is safe for concurrent use; create it
// with [New] and shut it down when done.
type Queue[T any] struct {
	limiter Waiter
	run     func(context.Context, T)
	cfg     Config[T]

	wake    chan struct{}      // something waits, or the queue is closed
	workers chan struct{}      // a token for each job that runs
	stop    context.Context    //nolint:containedctx // ends when jobs no longer get turns, and those that run are to stop
	cancel  context.CancelFunc // of stop
	turns   context.Context    //nolint:containedctx // ends with stop, or when no job will need a turn any more
	enough  context.CancelFunc // of turns
	idle    chan struct{}      // closed when all is done after closing

	mu      sync.Mutex
	waiting *list.List // of *waiter[T], the oldest first
	closed  bool
	stats   Stats
}

// waiter is a job that waits.
type waiter[T any] struct {
	ctx    context.Context //nolint:containedctx // the job's own
	job    T
	since  time.Time
	forget func() bool // stops watching ctx
}

// Stats tells what became of jobs. Accepted is always Done + Dropped + Left + Waiting + Running.
type Stats struct {
	Waiting, Running int
	Accepted         int64 // by Put
	Refused          int64 // by Put, for want of room or since the queue is shut down
	Done             int64 // ran to their end
	Dropped          int64 // did not run, and Dropped was told
	Left             int64 // did not run, and Shutdown returned them
}

// New returns a queue whose jobs are run by that function, each at the turn that the limiter gives it. A nil config is the
// default.
func New[T any](limiter Waiter, run func(ctx context.Context, job T), cfg *Config[T]) (*Queue[T], error) {
	if limiter == nil || run == nil {
		return nil, errors.New("queue: New needs a limiter, such as tidegate.New's, and a function that runs a job")
	}
	var c Config[T]
	if cfg != nil {
		c = *cfg
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	q := &Queue[T]{
		limiter: limiter,
		run:     run,
		cfg:     c,
		wake:    make(chan struct{}, 1),
		workers: make(chan struct{}, c.Workers),
		idle:    make(chan struct{}),
		waiting: list.New(),
	}
	q.stop, q.cancel = context.WithCancel(context.Background()) //nolint:gosec // serve calls it when it ends
	q.turns, q.enough = context.WithCancel(q.stop)              //nolint:gosec // Shutdown calls it, or the end of its parent does
	go q.serve()
	return q, nil
}

// Put lets a job wait for its turn. It never waits itself: beyond Size it returns [ErrFull], or drops the oldest job, as the
// config says.
//
// The context is the job's: when it ends, a job that waits is dropped and its place is free at once, and one that runs is told by
// the context that it runs under. A job that is to outlive the request that put it needs a context that does, such as
// context.WithoutCancel's.
func (q *Queue[T]) Put(ctx context.Context, job T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter[T]{ctx: ctx, job: job, since: time.Now()}
	q.mu.Lock()
	if q.closed {
		q.stats.Refused++
		q.mu.Unlock()
		return ErrClosed
	}
	var stale []T
	var oldest *waiter[T]
	if q.waiting.Len() >= q.cfg.Size {
		stale = q.stale()
	}
	full := q.waiting.Len() >= q.cfg.Size
	if full && q.cfg.Full == DropOldest {
		full = false
		oldest = q.remove(q.waiting.Front())
		q.stats.Dropped++
	}
	if full {
		q.stats.Refused++
		q.mu.Unlock()
		return ErrFull
	}
	q.stats.Accepted++
	place := q.waiting.PushBack(w)
	w.forget = context.AfterFunc(ctx, func() { q.leave(place) })
	q.mu.Unlock()
	q.poke()
	q.drop(stale)
	if oldest != nil {
		q.cfg.Dropped(oldest.job, ErrDropped)
	}
	return nil
}

// Stats returns what became of jobs so far.
func (q *Queue[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Waiting = q.waiting.Len()
	return s
}

// Shutdown lets no further job in, and returns when all that waited have run, each at its turn still, or when the context
// ends. Then the jobs that have not begun are returned, the oldest first, and those that run are told by their context; the
// error is the context's, and says how many of them there were.
func (q *Queue[T]) Shutdown(ctx context.Context) (left []T, err error) {
	q.mu.Lock()
	q.closed = true
	q.done()
	q.mu.Unlock()
	q.poke()
	select {
	case <-q.idle:
		return nil, nil
	default: // a context that has ended does not hide that all is done
	}
	select {
	case <-q.idle:
		return nil, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	for at := q.waiting.Front(); at != nil; at = q.waiting.Front() {
		left = append(left, q.remove(at).job)
	}
	q.stats.Left += int64(len(left))
	running := q.stats.Running
	q.mu.Unlock()
	q.cancel()
	return left, fmt.Errorf("queue: %d jobs had not begun and %d had not ended: %w", len(left), running, ctx.Err())
}

// remove takes a job out, which no longer watches its context. It runs under the lock.
func (q *Queue[T]) remove(at *list.Element) *waiter[T] {
	w := q.waiting.Remove(at).(*waiter[T])
	w.forget()
	return w
}

// stale takes out the jobs that have waited too long. It runs under the lock; drop is to follow.
func (q *Queue[T]) stale() (jobs []T) {
	for at := q.waiting.Front(); at != nil && q.cfg.MaxAge > 0; at = q.waiting.Front() {
		if time.Since(at.Value.(*waiter[T]).since) <= q.cfg.MaxAge {
			break
		}
		jobs = append(jobs, q.remove(at).job)
	}
	q.stats.Dropped += int64(len(jobs))
	return jobs
}

// drop says that jobs have waited too long.
func (q *Queue[T]) drop(stale []T) {
	for _, job := range stale {
		q.cfg.Dropped(job, ErrTooOld)
	}
}

// leave drops a job whose context has ended, if it still waits.
func (q *Queue[T]) leave(at *list.Element) {
	q.mu.Lock()
	w := at.Value.(*waiter[T])
	before := q.waiting.Len()
	q.waiting.Remove(at) // does nothing if it was taken out before
	gone := q.waiting.Len() < before
	if gone {
		q.stats.Dropped++
	}
	q.done()
	q.mu.Unlock()
	if gone {
		q.cfg.Dropped(w.job, w.ctx.Err())
	}
}

// done stops waiting for a turn that no job will need. It runs under the lock.
func (q *Queue[T]) done() {
	if q.closed && q.waiting.Len() == 0 {
		q.enough()
	}
}

// poke wakes the one that gives turns.
func (q *Queue[T]) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
