package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
)

// clockRoom is how long an answer may take whose moment counts, and how far the clocks may differ over a run. The middle of
// two such moments and that are off by less than half a token of benchLimit in all, to which the result is rounded.
const clockRoom = 200 * time.Millisecond

// reread asks the store for what was charged in all, and returns nil and why where it cannot tell to the token.
//
// A store tells what remains. With the default limit the prefill keeps each bucket from being full, so that it got back
// one token a second all the time, and what it says is short of by exactly that. Other limits tell while nothing has come
// back: buckets until a token is due, windows until the end of the first, a log for as long as it is.
func (r *benchRun) reread() (charged *int64, why string) {
	until, why := r.readableUntil()
	if why != "" {
		return nil, why
	}
	parts := make([]int64, len(r.keys))
	_, err := r.each(context.Background(), func(ctx context.Context, key int) error {
		now, err := r.read(ctx, key, 0)
		switch {
		case err != nil:
			return err
		case r.prefill > 0:
			parts[key], err = r.refilled(r.primed[key], now)
			return err
		case !now.answered.Before(until):
			return errTooLate
		}
		parts[key] = now.Limit - now.Remaining
		return nil
	})
	if err == nil && r.prefill > 0 {
		err = r.checkClock()
	}
	if err != nil {
		if _, ok := errors.AsType[*tidegate.StoreError](err); ok {
			return nil, "the store did not answer"
		}
		return nil, err.Error()
	}
	var sum int64
	for _, n := range parts {
		sum += n
	}
	return &sum, ""
}

var (
	errTooLate = errors.New("some of it came back before all was read")
	errUnclear = errors.New("the store answered too slowly")
	errStepped = errors.New("the store's clock stepped")
)

// readableUntil returns until when nothing that the run charged has come back.
func (r *benchRun) readableUntil() (until time.Time, why string) {
	l := r.limit.Normalize()
	switch {
	case r.prefill > 0:
		return time.Time{}, ""
	case l.Lease > 0:
		return time.Time{}, "leases are charged ahead"
	case l.Shards > 1:
		return time.Time{}, "a peek sees one shard"
	case l.Algorithm == tidegate.FixedWindow:
		return r.total.windowEnd, ""
	case l.Algorithm == tidegate.TokenBucket && l.Warmup == 0, l.Algorithm == tidegate.LeakyBucket:
		return r.started.Add(l.Per / time.Duration(l.Rate)), ""
	case l.Algorithm == tidegate.SlidingLog:
		return r.started.Add(l.Per), ""
	}
	return time.Time{}, "this limit does not tell"
}

// reading is what a bucket was at some moment.
type reading struct {
	moment
	tidegate.Decision
}

// wide reports whether the moment is too uncertain to count tokens by.
func (x *reading) wide() bool { return x.answered.Sub(x.sent) > clockRoom }

// read charges a cost and looks at the bucket after it, again where the answer was slow.
func (r *benchRun) read(ctx context.Context, key int, cost int64) (x reading, err error) {
	const tries = 5
	charges := r.charge(key, cost)
	for try := 0; try == 0 || try < tries && x.wide(); try++ {
		x.sent = time.Now()
		ds, err := r.store.Take(ctx, charges, nil)
		x.answered = time.Now()
		if err != nil {
			return x, err
		}
		x.Decision = ds[0]
		charges[0].Cost = 0
	}
	return x, nil
}

// refilled works out what a bucket of the default limit was charged between two readings, of when it was to be full again.
func (r *benchRun) refilled(then, now reading) (int64, error) {
	if then.wide() || now.wide() {
		return 0, errUnclear
	}
	least, most := now.sent.Sub(then.answered), now.answered.Sub(then.sent)
	token := r.limit.Per / time.Duration(r.limit.Rate)
	return int64((now.ResetAfter - then.ResetAfter + (least+most)/2).Round(token) / token), nil
}

// checkClock compares the store's clock with this process's over the run.
func (r *benchRun) checkClock() error {
	ctx, cancel := context.WithTimeout(context.Background(), afterPatience)
	defer cancel()
	sent := time.Now()
	at, err := r.store.Now(ctx)
	if err != nil {
		return err
	}
	passed := at.Sub(r.storeAt)
	if passed < sent.Sub(r.began.answered)-clockRoom || passed > time.Since(r.began.sent)+clockRoom {
		return errStepped
	}
	return nil
}

// chargedText says what was charged, or why that is not known.
func chargedText(charged *int64, why string) string {
	if charged == nil {
		return "not known: " + why
	}
	return fmt.Sprintf("%d", *charged)
}
