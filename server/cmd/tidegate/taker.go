package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

// taker makes takes of one charge.
type taker struct {
	store  tidegate.Store
	charge tidegate.Charge
	wait   time.Duration // longest wait for a turn
	// decide takes by rules instead of the charge; nil for the charge.
	decide func(ctx context.Context) (tidegate.Decision, error)
}

// errInterrupted is the end of a take that was given up while it waited for its turn.
var errInterrupted = errors.New("interrupted")

// take charges once. With a wait it returns when the turn has come. The end of ctx ends a wait, and gives the charge
// back, but does not break off a call to the store, which may have charged.
func (t *taker) take(ctx context.Context) (tidegate.Decision, error) {
	if t.decide != nil {
		return t.decide(context.WithoutCancel(ctx))
	}
	c := t.charge
	if t.wait > 0 {
		c.MaxWait, c.ID = t.wait, rand.Text()
	}
	calls := context.WithoutCancel(ctx)
	charges := []tidegate.Charge{c}
	ds, err := t.store.Take(calls, charges, nil)
	if err != nil {
		return tidegate.Decision{}, err
	}
	d := ds[0]
	if t.wait == 0 || !d.Allowed || sleep(ctx, d.Delay) {
		return d, nil
	}
	if err := t.store.Settle(calls, c.ID, charges, 0); err != nil {
		return d, err
	}
	return d, errInterrupted
}

// sleep returns true after d, or false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// repeat makes up to n takes, workers of them at once, and sums them up; it stops early when ctx ends.
//
// The k-th take starts at k times the interval after the first and no earlier, whatever those before it did: a take that
// is late makes up for it, so that the rate asked is the rate seen.
func (t *taker) repeat(ctx context.Context, n, workers int, interval time.Duration) *summary {
	workers = min(n, workers)
	_, _ = t.store.Now(ctx) // so that the first take need not connect; whether the store answers, the takes tell
	var (
		next  atomic.Int64
		start time.Time
		begin = make(chan struct{}) // closed when all workers are there, so that they start together
		ready sync.WaitGroup
		done  sync.WaitGroup
		sums  = make([]summary, workers) // one each, so that workers never wait for each other
	)
	for i := range sums {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			for k := next.Add(1) - 1; k < int64(n) && ctx.Err() == nil; k = next.Add(1) - 1 {
				if interval > 0 && !sleep(ctx, time.Until(start.Add(time.Duration(k)*interval))) {
					return
				}
				d, err := t.take(ctx)
				if !errors.Is(err, errInterrupted) {
					sums[i].add(time.Now(), d, err)
				}
			}
		})
	}
	ready.Wait()
	start = time.Now()
	close(begin)
	done.Wait()
	total := &summary{}
	for i := range sums {
		total.merge(&sums[i])
	}
	return total
}
