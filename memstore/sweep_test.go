package memstore

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
)

// round is how long it takes until each shard was looked through.
const round = sweeps * defaultSweep

// In a bubble of synctest time.Now stands still until everybody sleeps, so that the default clock is virtual.

func TestIdleBucketsLeave(t *testing.T) {
	for name, text := range algorithms {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(nil)
				defer s.Close()
				l := limit(t, text)
				var d tidegate.Decision
				for n := range 500 {
					d = take(t, s, l, strconv.Itoa(n), 1)
				}
				time.Sleep(d.ResetAfter - time.Millisecond)
				wantKeys(t, s, 500, 500)
				time.Sleep(time.Millisecond + round)
				synctest.Wait()
				wantKeys(t, s, 0, 0)
				if e := s.Stats().Evicted; e != 0 {
					t.Errorf("%d were counted as evicted", e)
				}
			})
		})
	}
}

// A bucket leaves when what was reserved of it has come back as well.
func TestReservedBucketsLeave(t *testing.T) {
	for name, text := range algorithms {
		l := limit(t, text)
		if l.Algorithm == tidegate.SlidingLog || l.Algorithm == tidegate.Concurrency {
			continue // they have no reservations
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(nil)
				defer s.Close()
				c := tidegate.Charge{Rule: "rule", Key: "key", Limit: l, Cost: 20, MaxWait: 26 * time.Hour, Hold: time.Minute}
				for n := range 2 {
					c.ID = strconv.Itoa(n)
					takeCharge(t, s, c)
				}
				c.Cost = 0
				time.Sleep(takeCharge(t, s, c).ResetAfter - time.Second)
				wantKeys(t, s, 1, 1)
				time.Sleep(time.Second + time.Minute + round)
				synctest.Wait()
				wantKeys(t, s, 0, 0)
				if n := len(s.reservations.byID); n != 0 {
					t.Errorf("%d reservations are remembered", n)
				}
			})
		})
	}
}

// RB-077: the sweep forgot a bucket in use whose time was a little ahead of its own.
func TestSweepLeavesBucketsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		defer s.Close()
		l := limit(t, "10/h burst 20")
		for range 100 {
			take(t, s, l, "busy", 1)
			wantKeys(t, s, 1, 1)
			time.Sleep(6 * time.Minute)
		}
		if d := take(t, s, l, "busy", 0); d.Remaining != 20 {
			t.Errorf("%+v", d)
		}
	})
	s, c := open(t, Config{SweepEvery: -1})
	for name, text := range algorithms {
		take(t, s, limit(t, text), name, 5)
	}
	for _, d := range []time.Duration{time.Microsecond, time.Second, time.Hour, 400 * 24 * time.Hour} {
		c.advance(-d) // a clock that has gone back makes nothing idle
		for i := range s.shards {
			s.sweepShard(&s.shards[i])
		}
		wantKeys(t, s, int64(len(algorithms)), int64(len(algorithms)))
	}
}

// The sweep lets go of its lock now and then. A bucket that came meanwhile in the place of an idle one must stay.
func TestSweepAmongTakes(t *testing.T) {
	s, c := open(t, Config{SweepEvery: -1})
	l := limit(t, "1/h burst 1")
	sh := &s.shards[0]
	var keys []string
	for n := 0; len(keys) < 1500; n++ { // all in one shard, so that a sweep of it lets go of the lock
		if key := strconv.Itoa(n); s.shard(s.idOf(&tidegate.Charge{Rule: "rule", Key: key})) == sh {
			keys = append(keys, key)
		}
	}
	for range 20 {
		for _, key := range keys {
			take(t, s, l, key, 1)
		}
		c.advance(time.Hour) // all are idle
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for n := g; n < len(keys); n += 4 {
					charge := tidegate.Charge{Rule: "rule", Key: keys[n], Limit: l, Cost: 1}
					_ = s.Reset(context.Background(), []tidegate.Charge{charge})
					if !takeCharge(t, s, charge).Allowed || takeCharge(t, s, charge).Allowed {
						t.Errorf("a bucket of 1 admitted another number")
						return
					}
				}
			})
		}
		wg.Go(func() {
			for range 5 {
				s.sweepShard(sh)
			}
		})
		wg.Wait()
		wantKeys(t, s, int64(len(keys)), int64(len(keys)))
		if t.Failed() {
			return
		}
		c.advance(2 * time.Hour)
		s.sweepShard(sh)
		wantKeys(t, s, 0, 0)
	}
}

func TestCloseStops(t *testing.T) {
	synctest.Test(t, func(*testing.T) { // which fails while a goroutine of the bubble is left
		s := New(nil)
		time.Sleep(10 * time.Minute)
		_ = s.Close()
		_ = s.Close()
	})
	s := New(nil)
	_, _ = s.Take(context.Background(), []tidegate.Charge{{Key: "key", Limit: limit(t, "10/s"), Cost: 1}}, nil)
	_ = s.Close()
	wantKeys(t, s, 0, 0)
	never := New(&Config{SweepEvery: -1})
	_ = never.Close()
}

func TestSweepEvery(t *testing.T) {
	for every, left := range map[time.Duration]int64{time.Millisecond: 0, time.Minute: 100, -1: 100} {
		synctest.Test(t, func(t *testing.T) {
			s := New(&Config{SweepEvery: every})
			defer s.Close()
			l := limit(t, "1000/s")
			for n := range 100 {
				take(t, s, l, strconv.Itoa(n), 1)
			}
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			wantKeys(t, s, left, left)
		})
	}
}
