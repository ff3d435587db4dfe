package httplimit_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/memstore"
)

// slowStore takes its time, as one far away does.
type slowStore struct {
	tidegate.Store

	take, back time.Duration
	given      atomic.Int64 // how often something was given back
}

func (s *slowStore) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	time.Sleep(s.take)
	return s.Store.Take(ctx, charges, dst)
}

func (s *slowStore) Settle(ctx context.Context, id string, charges []tidegate.Charge, cost int64) error {
	return s.later(ctx, func() error { return s.Store.Settle(ctx, id, charges, cost) })
}

func (s *slowStore) Release(ctx context.Context, id string, charges []tidegate.Charge) error {
	return s.later(ctx, func() error { return s.Store.Release(ctx, id, charges) })
}

func (s *slowStore) later(ctx context.Context, f func() error) error {
	select {
	case <-time.After(s.back):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.given.Add(1)
	return f()
}

// slow returns a limiter in a slow store.
func slow(t *testing.T, text string, take, back time.Duration) (*tidegate.Limiter, *slowStore) {
	t.Helper()
	limit, err := tidegate.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	store := &slowStore{Store: memstore.New(nil), take: take, back: back}
	t.Cleanup(func() { _ = store.Close() })
	l, err := tidegate.New(store, limit, &tidegate.Config{Rule: "api"})
	if err != nil {
		t.Fatal(err)
	}
	return l, store
}

// The end of a response waited for the store to be told that it was one.
func TestResponseDoesNotWaitForWhatItGivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		limit string
		cfg   httplimit.Config
	}{
		"a permit": {"1 concurrent", httplimit.Config{}},
		"a charge": {"1/h", httplimit.Config{Count: httplimit.CountFailures}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, store := slow(t, c.limit, 0, 500*time.Millisecond)
				m := middleware(t, l, &c.cfg)
				h := m.Wrap(http.HandlerFunc(ok))
				start := time.Now()
				get(h)
				if took := time.Since(start); took > time.Millisecond {
					t.Errorf("the response ended after %v", took)
				}
				if w := get(h); w.Code != http.StatusTooManyRequests {
					t.Errorf("another: %d", w.Code)
				}
				// Nothing is lost when the program ends.
				_ = m.Close()
				if took := time.Since(start); took != 500*time.Millisecond || store.given.Load() != 1 {
					t.Errorf("closed after %v, with %d given back", took, store.given.Load())
				}
				if d, err := l.Peek(t.Context(), "192.0.2.1"); err != nil || d.Remaining != 1 {
					t.Errorf("%+v, %v", d, err)
				}
			})
		})
	}
}

// A store that never answers holds neither a response nor the end of the program.
func TestStoreThatTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := slow(t, "5 concurrent", 0, time.Hour)
		m := middleware(t, l, nil)
		h := m.Wrap(http.HandlerFunc(ok))
		for range 5 {
			get(h)
		}
		start := time.Now()
		_ = m.Close()
		if took := time.Since(start); took > time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

// A store that is slow filled the queue with requests that did not have to wait, and one that had to was refused.
func TestQueueIsForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := slow(t, "1/s burst 20", 100*time.Millisecond, 0)
		m := middleware(t, l, &httplimit.Config{Queue: httplimit.Queue{Length: 1, Wait: 5 * time.Second}})
		h := m.Wrap(http.HandlerFunc(ok))
		answers := make(chan map[int][]time.Duration, 1)
		go func() { answers <- crowd(20, h) }()
		time.Sleep(50 * time.Millisecond)
		if n := m.Waiting(); n != 0 {
			t.Errorf("%d wait while the store is asked", n)
		}
		if got := <-answers; len(got[http.StatusOK]) != 20 {
			t.Errorf("%v", got)
		}
		if w := get(h); w.Code != http.StatusOK || m.Waiting() != 0 {
			t.Errorf("one who waits: %d", w.Code)
		}
	})
}
