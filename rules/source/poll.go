package source

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Poll fetches the document again and again until ctx ends, and delivers it when it has changed, or the error when it
// could not be fetched. It is what remains of a [Source.Watch] where a system has no watch of its own.
//
// Fetch returns [ErrUnchanged] instead of the document that it returned last. Its context is ctx: a bound on its time is its
// own. The pause between two calls is a
// fifth shorter or longer by chance, so that many replicas do not ask all at once; after failures it doubles, up to slow.
// Where slow is not above every, it stays.
func Poll(ctx context.Context, every, slow time.Duration, fetch func(context.Context) (Document, error), deliver func(Document, error)) error {
	pause, failed := every, false
	for {
		doc, err := fetch(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			pause, failed = every, false
			deliver(doc, nil)
		case errors.Is(err, ErrUnchanged):
			if failed {
				deliver(Document{}, ErrUnchanged)
			}
			pause, failed = every, false
		default:
			failed = true
			deliver(Document{}, err)
			pause = max(every, min(2*pause, slow))
		}
		if err := Sleep(ctx, jitter(pause)); err != nil {
			return err
		}
	}
}

// jitter returns a time within a fifth of d.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + time.Duration(rand.Int64N(int64(2*d/5)+1))
}

// Sleep returns after d, or with the context's error when that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
