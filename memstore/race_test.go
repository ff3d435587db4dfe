package memstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
)

// TestEverythingAtOnce does all that a store can from many goroutines, for the race detector to look at, and checks that
// the counts are right in the end.
func TestEverythingAtOnce(t *testing.T) {
	s := New(&Config{MaxKeys: 60, SweepEvery: 100 * time.Microsecond})
	ctx := context.Background()
	var limits []*tidegate.Limit
	for _, text := range algorithms {
		limits = append(limits, limit(t, text), limit(t, text))
	}
	charge := func(r *rand.Rand, id string) tidegate.Charge {
		c := tidegate.Charge{
			Rule: strconv.Itoa(r.IntN(3)), Key: strconv.Itoa(r.IntN(40)), Limit: limits[r.IntN(len(limits))],
			Version: r.Int64N(3), Cost: r.Int64N(5), Shadow: r.IntN(5) == 0,
		}
		switch c.Limit.Algorithm {
		case tidegate.Concurrency:
			c.ID = id
		case tidegate.SlidingLog:
		default:
			if r.IntN(3) == 0 {
				c.ID, c.Hold, c.MaxWait = id, time.Second, time.Minute
			}
			if r.IntN(6) == 0 {
				c.Cost = -1
			}
		}
		return c
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			dst := make([]tidegate.Decision, 0, 8)
			for n := range 3000 {
				id := fmt.Sprint(g, n)
				charges := make([]tidegate.Charge, 1+r.IntN(4))
				for i := range charges {
					charges[i] = charge(r, id)
				}
				ds, err := s.Take(ctx, charges, dst)
				if err != nil || len(ds) != len(charges) {
					t.Errorf("take: %d decisions for %d charges, error %v", len(ds), len(charges), err)
					return
				}
				switch r.IntN(10) {
				case 0:
					err = s.Settle(ctx, id, charges, r.Int64N(10))
				case 1:
					err = s.Release(ctx, id, charges)
				case 2:
					err = s.Renew(ctx, id, charges)
				case 3:
					err = s.Reset(ctx, charges[:1])
				case 4:
					s.Stats()
					_, err = s.Now(ctx)
				}
				if err != nil && !errors.Is(err, tidegate.ErrUnknownID) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// A take that adds a bucket makes room for it right after, so that each caller can be one over for a moment.
	wantKeys(t, s, 0, 60)
	for range 2 {
		wg.Go(func() { _ = s.Close() })
		wg.Go(func() { _, _ = s.Take(ctx, []tidegate.Charge{{Key: "late", Limit: limits[0]}}, nil) })
	}
	wg.Wait()
}

// Takes of the same buckets in opposite orders never wait for each other.
func TestOppositeOrders(t *testing.T) {
	s, _ := open(t, Config{})
	l := limit(t, "1/h burst 100000")
	var charges [2][]tidegate.Charge
	for n := range 8 {
		c := tidegate.Charge{Rule: "rule", Key: strconv.Itoa(n), Limit: l, Cost: 1}
		charges[0] = append(charges[0], c)
		charges[1] = append([]tidegate.Charge{c}, charges[1]...)
	}
	const callers, takes = 8, 2000
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			dst := make([]tidegate.Decision, 0, 8)
			for range takes {
				if _, err := s.Take(context.Background(), charges[g%2], dst); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the takes wait for each other")
	}
	for _, c := range charges[0] {
		c.Cost = 0
		if d := takeCharge(t, s, c); d.Remaining != 100_000-callers*takes {
			t.Errorf("%+v", d)
		}
	}
}
