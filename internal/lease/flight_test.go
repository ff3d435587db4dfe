package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// slow is a layer before a store that answers after a while, in the time of a bubble.
type slow struct {
	store *memstore.Store
	layer *Layer
	way   time.Duration // half of the while
	fails error
	mu    sync.Mutex
	asked []int64 // costs
}

func newSlow(t *testing.T) *slow {
	t.Helper()
	s := &slow{store: memstore.New(&memstore.Config{Now: time.Now, SweepEvery: -1})}
	s.layer = New(Config{Take: s.take})
	t.Cleanup(func() {
		s.layer.Close()
		_ = s.store.Close()
	})
	return s
}

func (s *slow) take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	s.mu.Lock()
	s.asked = append(s.asked, charges[0].Cost)
	way, fails := s.way, s.fails
	s.mu.Unlock()
	time.Sleep(way)
	if fails != nil {
		return dst, fails
	}
	dst, err := s.store.Take(ctx, charges, dst)
	time.Sleep(way)
	return dst, err
}

// from sets what takes do from now on.
func (s *slow) from(way time.Duration, fails error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way, s.fails = way, fails
}

// warm lets the lease of a charge be used up, so that the next take fetches n tokens.
func (s *slow) warm(t *testing.T, c tidegate.Charge, n int64) {
	t.Helper()
	for range n {
		if _, err := s.layer.Take(t.Context(), []tidegate.Charge{c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for x := s.layer.cellOf(&c); x.left > 0; {
		if _, err := s.layer.Take(t.Context(), []tidegate.Charge{c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.asked = nil
}

// outcome is what a caller was told, and when.
type outcome struct {
	d     tidegate.Decision
	err   error
	after time.Duration
}

// call takes on a goroutine of its own.
func (s *slow) call(ctx context.Context, c tidegate.Charge) <-chan outcome {
	told := make(chan outcome, 1)
	start := time.Now()
	go func() {
		ds, err := s.layer.Take(ctx, []tidegate.Charge{c}, nil)
		o := outcome{err: err, after: time.Since(start)}
		if err == nil {
			o.d = ds[0]
		}
		told <- o
	}()
	synctest.Wait()
	return told
}

// One fetches, all others wait for it and spend what it brings; those for whom it is not enough ask the store then.
func TestOneFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		c := charge(t, "k", flat, 1)
		s.warm(t, c, 20)
		s.from(5*time.Millisecond, nil)
		var all []<-chan outcome
		for range 100 {
			all = append(all, s.call(t.Context(), c))
		}
		leased, plain := 0, 0
		for i, told := range all {
			o := <-told
			if o.err != nil || !o.d.Allowed {
				t.Fatalf("%+v", o)
			}
			switch {
			case o.d.Source == tidegate.SourceLease && o.after == 10*time.Millisecond:
				leased++
			case i == 0 && o.after == 10*time.Millisecond:
			case o.d.Source == tidegate.SourceStore && o.after == 20*time.Millisecond:
				plain++
			default:
				t.Errorf("caller %d: %+v", i, o)
			}
		}
		if s.asked[0] != int64(leased)+1 || leased < 20 || plain != 99-leased || len(s.asked) != 1+plain {
			t.Errorf("%d leased, %d plain, asked %v", leased, plain, s.asked)
		}
		for _, cost := range s.asked[1:] {
			if cost != 1 {
				t.Errorf("asked %v: a second wait would be another's slice", s.asked)
			}
		}
	})
}

// When the store fails whoever fetches, it has failed all who wait, at once.
func TestWaitersShareTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		c := charge(t, "k", flat, 1)
		s.warm(t, c, 20)
		s.from(time.Second/2, &tidegate.StoreError{Op: "take", Err: errors.New("gone")})
		var all []<-chan outcome
		for range 10 {
			all = append(all, s.call(t.Context(), c))
		}
		for i, told := range all {
			if o := <-told; !errors.Is(o.err, tidegate.ErrStore) || o.after != time.Second/2 {
				t.Errorf("caller %d: %+v", i, o)
			}
		}
		if len(s.asked) != 1 {
			t.Errorf("asked %v", s.asked)
		}
		s.from(0, nil)
		if o := <-s.call(t.Context(), c); o.err != nil || !o.d.Allowed {
			t.Errorf("after it: %+v", o)
		}
	})
}

// Any other error is its caller's own, and the others ask for themselves.
func TestWaitersDoNotShareOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		c := charge(t, "k", flat, 1)
		s.warm(t, c, 20)
		s.from(time.Millisecond, tidegate.ErrUnsupported)
		first, second := s.call(t.Context(), c), s.call(t.Context(), c)
		<-first
		if o := <-second; !errors.Is(o.err, tidegate.ErrUnsupported) || len(s.asked) != 2 {
			t.Errorf("%+v, asked %v", o, s.asked)
		}
	})
}

// Whoever fetches may leave: the others get what was fetched, and what it would have cost is left as well.
func TestFetcherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		c := charge(t, "k", flat, 1)
		s.warm(t, c, 20)
		before := s.layer.Stats()
		s.from(10*time.Millisecond, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		fetcher := s.call(ctx, c)
		waiter := s.call(t.Context(), c)
		if o := <-fetcher; !errors.Is(o.err, context.DeadlineExceeded) || o.after != 5*time.Millisecond {
			t.Errorf("the fetcher: %+v", o)
		}
		if o := <-waiter; o.err != nil || o.d.Source != tidegate.SourceLease || o.after != 20*time.Millisecond {
			t.Errorf("the waiter: %+v", o)
		}
		n := s.asked[0]
		st := s.layer.Stats()
		if got := st.Taken - before.Taken; got != n {
			t.Errorf("%d were charged, %d of them taken ahead: %+v", n, got, st)
		}
		if x := s.layer.cellOf(&c); x.left != n-1 {
			t.Errorf("%d are left of %d", x.left, n)
		}
	})
}

// A waiter may leave, too.
func TestWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		c := charge(t, "k", flat, 1)
		s.warm(t, c, 20)
		s.from(10*time.Millisecond, nil)
		fetcher := s.call(t.Context(), c)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		waiter := s.call(ctx, c)
		if o := <-waiter; !errors.Is(o.err, context.DeadlineExceeded) || o.after != 5*time.Millisecond {
			t.Errorf("the waiter: %+v", o)
		}
		if o := <-fetcher; o.err != nil || !o.d.Allowed {
			t.Errorf("the fetcher: %+v", o)
		}
	})
}

// Nobody waits for ever, whatever the store does.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		s.layer.wait = 100 * time.Millisecond
		c := charge(t, "k", flat, 1)
		s.warm(t, c, 20)
		s.from(time.Minute, nil)
		fetcher := s.call(t.Context(), c)
		s.from(time.Millisecond, nil)
		waiter := s.call(t.Context(), c)
		if o := <-waiter; o.err != nil || o.d.Source != tidegate.SourceStore || o.after != 102*time.Millisecond {
			t.Errorf("the waiter: %+v", o)
		}
		<-fetcher
	})
}

// What was fetched for a lease that has ended meanwhile lapses.
func TestLeaseEndsInFlight(t *testing.T) {
	for name, end := range map[string]func(s *slow, c tidegate.Charge){
		"a reset": func(s *slow, c tidegate.Charge) { s.layer.Reset([]tidegate.Charge{c}) },
		"a reset, after which another begins": func(s *slow, c tidegate.Charge) {
			s.layer.Reset([]tidegate.Charge{c})
			_, _ = s.layer.Take(context.Background(), []tidegate.Charge{c}, nil)
		},
		"a newer limit": func(s *slow, c tidegate.Charge) {
			c.Version, c.Cost = 8, 0
			_, _ = s.layer.Take(context.Background(), []tidegate.Charge{c}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlow(t)
				c := charge(t, "k", flat, 1)
				s.warm(t, c, 20)
				before := s.layer.Stats()
				s.from(5*time.Millisecond, nil)
				fetcher := s.call(t.Context(), c)
				s.from(0, nil)
				end(s, c)
				if o := <-fetcher; o.err != nil || !o.d.Allowed {
					t.Errorf("%+v", o)
				}
				st := s.layer.Stats()
				if n := s.asked[0] - 1; n < 1 || st.Taken-before.Taken != n || st.Lapsed-before.Lapsed != n {
					t.Errorf("asked %v: %+v, before %+v", s.asked, st, before)
				}
				if o := <-s.call(t.Context(), c); o.d.Source != tidegate.SourceStore {
					t.Errorf("after it: %+v", o)
				}
			})
		})
	}
}

// A store that panics takes nobody with it who waits.
func TestStorePanics(t *testing.T) {
	w := newWorld(t)
	c := charge(t, "k", flat, 1)
	w.grow(c, 0)
	w.take = func(context.Context, []tidegate.Charge, []tidegate.Decision) ([]tidegate.Decision, error) {
		panic("broken")
	}
	func() {
		defer func() { _ = recover() }()
		w.takes(c)
	}()
	w.take = w.store.Take
	if x := w.layer.cellOf(&c); x.flight != nil {
		t.Error("the next one waits for it")
	}
	if d := w.takes(c)[0]; !d.Allowed {
		t.Errorf("%+v", d)
	}
}
