package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// owes makes a replica owe something for keys, and the store be back in such a way.
func (r *replica) owes(then fault, cs ...tidegate.Charge) {
	r.t.Helper()
	r.drop(fails("down"))
	for _, c := range cs {
		r.admits(c, 10)
	}
	r.way.set(then)
	for r.Status().State == Fallback {
		time.Sleep(time.Millisecond)
	}
}

// onlyBeats answers heartbeats, and nothing else.
func onlyBeats(ctx context.Context, op string, do func() error) error {
	if op == "beat" {
		return do()
	}
	return hangs(ctx, op, do)
}

// Who has to wait until a key's debts are paid does so within the one deadline, however many keys there are, and whoever pays.
func TestPayingIsWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1, Failures: 100})
		var cs []tidegate.Charge
		for i := range 4 {
			cs = append(cs, charge(t, fmt.Sprint("rule ", i), "k", "100/1000h", 1))
		}
		r.way.set(fails("down"))
		time.Sleep(3 * time.Second)
		for _, c := range cs {
			r.admits(c, 10)
		}
		r.way.set(onlyBeats)
		for r.Status().State == Fallback {
			time.Sleep(time.Millisecond)
		}
		var slowest atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				start := time.Now()
				if d := r.take(cs...); d.Source != tidegate.SourceFallback {
					t.Errorf("%+v", d)
				}
				slowest.Store(max(slowest.Load(), int64(time.Since(start))))
			})
		}
		all.Wait()
		if d := time.Duration(slowest.Load()); d > defaultTimeout {
			t.Errorf("one waited %v", d)
		}
	})
}

// Who asks again while the breaker is still closed does not wait for the payment of what was just admitted, and then again.
func TestNobodyWaitsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1, Failures: 20})
		c := charge(t, "api", "k", "1000/s", 1)
		r.take(c)
		r.way.set(hangs)
		for i := range 30 {
			start := time.Now()
			if d := r.take(c); d.Source != tidegate.SourceFallback {
				t.Errorf("%+v", d)
			}
			if took := time.Since(start); took > defaultTimeout {
				t.Errorf("take %d waited %v", i, took)
			}
		}
	})
}

// What is admitted before the breaker has opened is owed too: no payment is tried at a store that has just failed.
func TestOwedFromTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		time.Sleep(2 * time.Second)
		c := charge(t, "api", "k", "1000/1000h", 1)
		r.way.set(hangs)
		n := r.admits(c, 50)
		if st := r.Status(); n != 50 || st.State != Fallback {
			t.Fatalf("%d passed, %+v", n, st)
		}
		time.Sleep(5 * time.Second)
		r.way.set(nil)
		time.Sleep(2 * time.Second)
		if n := sv.remains(t, c); n != 950 {
			t.Errorf("%d remain of 1000 after 50", n)
		}
	})
}

// A caller who leaves while debts are paid is not held up, and neither breaks the payment off nor fails the store.
func TestLeavingWhilePaying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sv := newServer(t)
		r := newReplica(t, sv, Config{Replicas: 1})
		c := charge(t, "api", "k", "100/1000h", 1)
		r.owes(func(_ context.Context, op string, do func() error) error {
			if op == "take" {
				time.Sleep(40 * time.Millisecond)
			}
			return do()
		}, c)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := r.Take(ctx, []tidegate.Charge{c}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tidegate.ErrStore) || time.Since(start) > 10*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Second)
		if n := sv.remains(t, c); n != 90 || r.Status().Debts != 0 || r.Status().State != Shared {
			t.Errorf("%d remain, %+v", n, r.Status())
		}
	})
}

// A key of which a payment is under way is decided after it, by whomever.
func TestNobodyOvertakesAPayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		c := charge(t, "api", "k", "10/1000h", 1)
		var first atomic.Bool
		r.owes(func(_ context.Context, op string, do func() error) error {
			if op == "take" && first.CompareAndSwap(false, true) {
				time.Sleep(30 * time.Millisecond)
			}
			return do()
		}, c)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if d := r.take(c); d.Allowed {
					t.Errorf("take %d: %+v", i, d)
				}
			})
		}
		all.Wait()
	})
}

// What a cache, a lease or no bucket at all answers does not keep the breaker closed while the store fails.
func TestAnswersOfNobody(t *testing.T) {
	for name, source := range map[string]tidegate.Source{"denied": tidegate.SourceDeniedCache, "lease": tidegate.SourceLease, "unlimited": tidegate.SourceUnlimited, "none": tidegate.SourceStore} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sv := newServer(t)
				w := &way{server: sv}
				s, err := New(&cachedWay{w, source}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				time.Sleep(10 * time.Millisecond)
				cached := charge(t, "cached", "k", "10/h", 1)
				if name == "none" {
					cached.Limit = limit(t, "none")
				}
				w.set(onlyBeats)
				start := time.Now()
				for range defaultFailures {
					for _, c := range []tidegate.Charge{charge(t, "asked", "k", "10/h", 1), cached} {
						if _, err := s.Take(context.Background(), []tidegate.Charge{c}, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				synctest.Wait()
				if st := s.Status(); st.State != Fallback {
					t.Errorf("after %d failures in %v: %+v", defaultFailures, time.Since(start), st)
				}
			})
		})
	}
}

// cachedWay answers the takes of one rule without the server.
type cachedWay struct {
	*way
	source tidegate.Source
}

func (w *cachedWay) Take(ctx context.Context, charges []tidegate.Charge, dst []tidegate.Decision) ([]tidegate.Decision, error) {
	if charges[0].Rule == "cached" {
		return append(dst, tidegate.Decision{Source: w.source, Limit: 10, Rule: "cached"}), nil
	}
	return w.way.Take(ctx, charges, dst)
}

// Of answers that overtake each other that counts of which less remains: an outage that begins then begins with it.
func TestAnswersInDisorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newServer(t), Config{Replicas: 1})
		c := charge(t, "api", "k", "100/1000h", 1)
		var asked atomic.Int64
		r.way.set(func(_ context.Context, op string, do func() error) error {
			err := do()
			if op == "take" { // the first is answered last
				time.Sleep(40*time.Millisecond - time.Duration(asked.Add(1))*100*time.Microsecond)
			}
			return err
		})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { r.take(c) })
			time.Sleep(time.Microsecond)
		}
		all.Wait()
		r.drop(fails("down"))
		if n := r.admits(c, 100); n != 0 {
			t.Errorf("%d passed of a bucket that is empty", n)
		}
		r.way.set(nil)
		time.Sleep(2 * time.Second)
		refund := c
		refund.Cost = -50
		r.take(refund)
		peek := c
		peek.Cost = 0
		r.take(peek) // later than all that was noted
		r.drop(fails("down"))
		if n := r.admits(c, 100); n != 50 {
			t.Errorf("%d passed of 50 that were given back", n)
		}
	})
}
