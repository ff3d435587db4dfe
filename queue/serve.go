package queue

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate-go/tidegate"
)

// leastRetry and mostRetry are how long after a failure the limiter is asked again.
const leastRetry, mostRetry = 100 * time.Millisecond, 5 * time.Second

// serve gives jobs their turns until the queue is closed and empty, or stopped.
func (q *Queue[T]) serve() {
	defer close(q.idle)
	defer q.cancel()
	for q.wanted() {
		// First somebody to run it, then the turn: the other way round turns would be saved up while all are busy.
		select {
		case q.workers <- struct{}{}:
		case <-q.stop.Done():
			continue
		}
		w := q.next()
		if w == nil {
			<-q.workers
			continue
		}
		go q.work(w)
	}
	for range cap(q.workers) { // all that ran have ended
		q.workers <- struct{}{}
	}
}

// wanted waits until a job does, and reports false when none will any more.
func (q *Queue[T]) wanted() bool {
	for {
		q.mu.Lock()
		some, closed := q.waiting.Len() > 0, q.closed
		q.mu.Unlock()
		switch {
		case q.stop.Err() != nil:
			return false
		case some:
			return true
		case closed:
			return false
		}
		select {
		case <-q.wake:
		case <-q.stop.Done():
		}
	}
}

// next waits for a turn, and returns the job that has it: whichever is the oldest then. It is nil if none is left by then, and the
// turn lost.
func (q *Queue[T]) next() *waiter[T] {
	if !q.turn() {
		return nil
	}
	q.mu.Lock()
	stale := q.stale()
	var w *waiter[T]
	if at := q.waiting.Front(); at != nil {
		w = q.remove(at)
		q.stats.Running++
	}
	q.mu.Unlock()
	q.drop(stale)
	return w
}

// turn waits for a turn, whatever that takes, and reports false if none is needed any more.
func (q *Queue[T]) turn() bool {
	retry := leastRetry
	for {
		err := q.limiter.WaitN(q.turns, q.cfg.Key, 1)
		if err == nil || q.turns.Err() != nil {
			return err == nil
		}
		wait := retry
		var late *tidegate.DeadlineError
		if errors.As(err, &late) && late.Need > late.Have {
			wait = late.Need - late.Have // others are before it, by more than the limiter lets anybody wait
		} else {
			q.cfg.Failed(err)
			retry = min(2*retry, mostRetry)
		}
		if !sleep(q.turns, wait) {
			return false
		}
	}
}

// sleep reports false if the context ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// work runs a job under its own context, which also ends when the queue is stopped.
func (q *Queue[T]) work(w *waiter[T]) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	forget := context.AfterFunc(q.stop, cancel)
	defer forget()
	defer func() {
		q.mu.Lock()
		q.stats.Running--
		q.stats.Done++
		q.mu.Unlock()
		<-q.workers
	}()
	q.run(ctx, w.job)
}
