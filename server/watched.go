package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/resilience"
)

// watchedStore measures a store and logs when it begins and ceases to fail: a line for each change, not for each request.
// A store of package resilience tells all that itself, and is not watched.
type watchedStore struct {
	tidegate.Store
	calls *callMetrics
	log   *slog.Logger

	failing atomic.Bool // so that a store that works costs no lock
	mu      sync.Mutex
	since   time.Time // of the first failure
	last    time.Time // of the latest failure
	failed  int
	err     error // of the latest failure
}

// calm is how long a store must not have failed to be well again: one that fails now and then stays failing.
const calm = time.Second

// Take is the store's.
func (w *watchedStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	start := time.Now()
	ds, err := w.Store.Take(ctx, charges, dst)
	if err == nil && len(ds) > 0 && ds[len(ds)-1].Source == tidegate.SourceLease {
		return ds, nil // the store was not asked, which says nothing of how it does
	}
	w.saw(start, err)
	return ds, err
}

// Settle is the store's.
func (w *watchedStore) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	start := time.Now()
	err := w.Store.Settle(ctx, id, charges, cost)
	w.saw(start, err)
	return err
}

// Renew is the store's.
func (w *watchedStore) Renew(ctx context.Context, id string, charges []tidegate.Charge) error {
	start := time.Now()
	err := w.Store.Renew(ctx, id, charges)
	w.saw(start, err)
	return err
}

// Release is the store's.
func (w *watchedStore) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	start := time.Now()
	err := w.Store.Release(ctx, id, charges)
	w.saw(start, err)
	return err
}

// Reset is the store's.
func (w *watchedStore) Reset(ctx context.Context, charges []tidegate.Charge) error {
	start := time.Now()
	err := w.Store.Reset(ctx, charges)
	w.saw(start, err)
	return err
}

// Now is the store's.
func (w *watchedStore) Now(ctx context.Context) (time.Time, error) {
	start := time.Now()
	now, err := w.Store.Now(ctx)
	w.saw(start, err)
	return now, err
}

// saw takes note of a call that began at start.
func (w *watchedStore) saw(start time.Time, err error) {
	now := time.Now()
	kind := resilience.NoError
	switch {
	case errors.Is(err, tidegate.ErrStore) || errors.Is(err, tidegate.ErrClosed):
		kind = resilience.KindOther
		w.fail(now, err)
	case err == nil && w.failing.Load():
		w.succeed(now)
	}
	w.calls.saw(now.Sub(start), kind)
}

func (w *watchedStore) fail(now time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.err = now, err
	w.failed++
	if !w.failing.Swap(true) {
		w.since = now
		w.log.Warn("the store does not answer, and takes are answered 503 until it does", slog.Any("error", cause(err)))
	}
}

func (w *watchedStore) succeed(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.failing.Load() || now.Sub(w.last) < calm {
		return
	}
	w.log.Info("the store answers again", slog.Duration("after", now.Sub(w.since)), slog.Int("failed_calls", w.failed))
	w.failing.Store(false)
	w.failed = 0
}

// trouble says since when the store fails, and how; false if it does not.
func (w *watchedStore) trouble() (since time.Time, failing bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.failing.Load(), w.err
}
