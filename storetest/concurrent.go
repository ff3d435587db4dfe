package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleConcurrent = "all methods are safe for concurrent use: concurrent takes admit exactly the limit"
	ruleDeadlock   = "concurrent takes of the same buckets in opposite orders are all answered"
	ruleInFlight   = "at no moment are more than N permits held"
)

const (
	callers  = 16
	patience = time.Minute // real time, for what is stuck
)

func concurrentCases() []testCase {
	cases := forEach("takes", ruleConcurrent, concurrentTakes)
	return append(cases,
		testCase{"first takes", ruleConcurrent, concurrentFirst},
		testCase{"several", ruleConcurrent, concurrentSeveral},
		testCase{"opposite orders", ruleDeadlock, oppositeOrders},
		testCase{"permits", ruleInFlight, concurrentPermits},
		testCase{"reservations", "concurrent reservations and settles lose nothing", concurrentReservations},
		testCase{"settled once", ruleOnce, concurrentSettle},
		testCase{"versions", ruleShare, concurrentVersions},
	)
}

// together runs f in many goroutines at once, which report errors by returning them, and waits for all.
func (x *trial) together(f func(caller int) error) {
	x.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	begin := make(chan struct{})
	for n := range callers {
		wg.Go(func() {
			<-begin
			if err := f(n); err != nil {
				errs <- err
			}
		})
	}
	close(begin)
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		x.Fatalf("not done within %v", patience)
	}
	close(errs)
	for err := range errs {
		x.Errorf("%v", err)
	}
}

// counts takes the charges once, and counts the take if it was allowed.
func (x *trial) counts(admitted *atomic.Int64, charges ...tidegate.Charge) error {
	ds, err := x.store.Take(x.Context(), charges, nil)
	if err != nil {
		return err
	}
	if tidegate.Combine(charges, ds).Allowed {
		admitted.Add(1)
	}
	return nil
}

func concurrentTakes(x *trial, a algorithm) {
	b := x.ready(a.limit)
	var admitted atomic.Int64
	charge := b.charge
	charge.Cost = 1
	x.together(func(caller int) error {
		c := charge
		for n := range 6 {
			if c.Limit.Algorithm == tidegate.Concurrency {
				c.ID = string(rune('a'+caller)) + string(rune('a'+n))
			}
			if err := x.counts(&admitted, c); err != nil {
				return err
			}
		}
		return nil
	})
	if n := admitted.Load(); n != capacity {
		x.Errorf("%s: %d of %d concurrent takes were admitted", b, n, 6*callers)
	}
}

func concurrentFirst(x *trial) { // RB-086: each bucket is created by many at once
	for range 20 {
		b := x.bucket("1/s burst 10")
		var admitted atomic.Int64
		c := b.asks(1)
		x.together(func(int) error { return x.counts(&admitted, c) })
		if n := admitted.Load(); n != 10 {
			x.Errorf("%s: %d of %d concurrent first takes were admitted", b, n, callers)
		}
	}
}

func concurrentSeveral(x *trial) {
	wide, narrow := x.bucket("1/h burst 1000"), x.bucket("50/h fixed-window")
	var admitted atomic.Int64
	w, n := wide.asks(3), narrow.asks(1)
	x.together(func(int) error {
		for range 8 {
			if err := x.counts(&admitted, w, n); err != nil {
				return err
			}
		}
		return nil
	})
	if got := admitted.Load(); got > 50 || got < 50 && !x.h.NotAtomic {
		x.Errorf("%d of %d concurrent takes of two buckets were admitted, of which one holds 50", got, 8*callers)
	}
	if d := wide.take(0); d.Remaining != 1000-3*admitted.Load() {
		x.Errorf("%s: %d takes of 3 were admitted: %s", wide, admitted.Load(), say(d))
	}
}

func oppositeOrders(x *trial) {
	buckets := make([]*bucket, 6)
	charges := make([]tidegate.Charge, len(buckets))
	for i := range buckets {
		buckets[i] = x.bucket("1/h burst 5000")
		charges[i] = buckets[i].asks(1)
	}
	backwards := make([]tidegate.Charge, len(charges))
	for i, c := range charges {
		backwards[len(charges)-1-i] = c
	}
	var admitted atomic.Int64
	x.together(func(caller int) error {
		order := charges
		if caller%2 == 1 {
			order = backwards
		}
		for range 100 {
			if err := x.counts(&admitted, order...); err != nil {
				return err
			}
		}
		return nil
	})
	for _, b := range buckets {
		if d := b.take(0); d.Remaining != 5000-100*callers || admitted.Load() != 100*callers {
			x.Errorf("%s: after %d takes, %d of them admitted: %s", b, 100*callers, admitted.Load(), say(d))
		}
	}
}

func concurrentPermits(x *trial) {
	b := x.bucket("5 concurrent ttl 1m")
	var held, most, given atomic.Int64
	charge := b.charge
	charge.Cost = 1
	x.together(func(caller int) error {
		c := charge
		for n := range 20 {
			c.ID = string(rune('a'+caller)) + string(rune('a'+n))
			ds, err := x.store.Take(x.Context(), []tidegate.Charge{c}, nil)
			if err != nil {
				return err
			}
			if !ds[0].Allowed {
				continue
			}
			given.Add(1)
			now := held.Add(1)
			for old := most.Load(); now > old; old = most.Load() {
				if most.CompareAndSwap(old, now) {
					break
				}
			}
			held.Add(-1)
			if err := x.store.Release(x.Context(), c.ID, []tidegate.Charge{c}); err != nil {
				return err
			}
		}
		return nil
	})
	if most.Load() > 5 || given.Load() == 0 {
		x.Errorf("%s: %d were held at once, and %d in all", b, most.Load(), given.Load())
	}
	b.wants(0, "yes 5/5")
}

func concurrentReservations(x *trial) {
	b := x.bucket("1/h burst 10000")
	charge := b.charge
	charge.Cost, charge.Hold = 10, time.Hour
	x.together(func(caller int) error {
		c := charge
		for n := range 20 {
			c.ID = string(rune('a'+caller)) + string(rune('a'+n))
			if _, err := x.store.Take(x.Context(), []tidegate.Charge{c}, nil); err != nil {
				return err
			}
			if err := x.store.Settle(x.Context(), c.ID, []tidegate.Charge{c}, int64(n)); err != nil {
				return err
			}
		}
		return nil
	})
	if d := b.take(0); d.Remaining != 10_000-callers*190 {
		x.Errorf("%s: after %d reservations settled for 0 to 19: %s", b, 20*callers, say(d))
	}
}

func concurrentSettle(x *trial) {
	b := x.bucket("1/h burst 100")
	for range 10 {
		id, _ := b.reserve(3, 0, time.Hour)
		b.take(2)
		var settled atomic.Int64
		x.together(func(int) error {
			err := x.store.Settle(x.Context(), id, []tidegate.Charge{b.charge}, 0)
			if err == nil {
				settled.Add(1)
			} else if errors.Is(err, tidegate.ErrUnknownID) {
				err = nil
			}
			return err
		})
		if settled.Load() != 1 {
			x.Errorf("%s: one reservation was settled %d times", b, settled.Load())
		}
	}
	if d := b.take(0); d.Remaining != 80 {
		x.Errorf("%s: 20 were taken, and 10 reservations cancelled: %s", b, say(d))
	}
}

// concurrentVersions takes under two versions at once: the newer one wins, whoever comes first.
func concurrentVersions(x *trial) {
	b := x.bucket("1/h burst 100")
	b.take(10)
	old, newer := b.asks(1), b.changed("1/h burst 1000", x.version()).asks(1)
	var admitted atomic.Int64
	x.together(func(caller int) error {
		c := old
		if caller%2 == 1 {
			c = newer
		}
		for range 5 {
			if err := x.counts(&admitted, c); err != nil {
				return err
			}
		}
		return nil
	})
	d := x.takeAll(newer)[0]
	// A take of the old limit that came before the first newer one counts ten times what it does after.
	const takes = 5 * callers
	if used := d.Limit - d.Remaining - 1; d.Limit != 1000 || admitted.Load() != takes || used < 100+takes || used > 100+takes+9*takes/2 {
		x.Errorf("%s: after %d takes of 1 under two versions: %s", b, admitted.Load(), say(d))
	}
}
